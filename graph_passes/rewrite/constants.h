// Finds constants behind Identity nodes, as frozen variables are, and removes those without
// consumers.
#ifndef NPU_PRECISION_GRAPH_PASSES_REWRITE_CONSTANTS_H_
#define NPU_PRECISION_GRAPH_PASSES_REWRITE_CONSTANTS_H_

#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "graph_passes/decide/decide_context.h"
#include "graph_passes/graph/constant_values.h"
#include "graph_passes/graph/graph_view.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/framework/tensor.pb.h"
#include "tensorflow/core/framework/tensor_shape.pb.h"

namespace npu_precision {

// The shape of a tensor that is a constant, or a copy or a Cast of one. nullptr for any other
// tensor, and for a tensor that the caller feeds.
const tensorflow::TensorShapeProto* ShapeOfConstant(const GraphView& view,
                                                    const ConstantValues& values,
                                                    const std::set<std::string>& fed,
                                                    OutputPort tensor);

class Constants {
 public:
  // All must outlive this object. `values` has the values that the view's graph lacks.
  Constants(const DecideContext& context, const GraphView& view, ConstantValues* values);

  // Whether the caller fetches or feeds the node, so that its outputs may not change.
  bool IsFixed(int id) const;
  // Whether another node has a control dependency on it, or is colocated with it.
  bool IsPinned(int id) const { return is_control_producer_[id] || HasColocated(id); }

  // The path from the producer of a tensor back to its Const, which is last. Empty if there is
  // none, or if a node on the path is fixed or has control inputs.
  std::vector<int> PathBack(const OutputPort& tensor) const;

  // The value of the Const at the end of a path; nullptr if it has none.
  const tensorflow::TensorProto* Value(const std::vector<int>& path) const;

  // Removes one consumer from the first node of a path, and then the nodes that have no consumer
  // left. A node stays if another node is colocated with it. It also stays if another node has a
  // control dependency on it and the Const has control inputs. Other control dependencies on
  // removed nodes are removed with them.
  void Release(const std::vector<int>& path);
  // Whether any node had a control dependency on a removed one.
  bool DropsControlInputs() const { return !removed_inputs_.empty(); }

  // Deletes the control inputs of `node` that come from removed nodes.
  void DropControlInputs(tensorflow::NodeDef* node) const;

  // Deletes the removed nodes from `graph`, which the view was built on and no longer fits, and
  // the control inputs of the others from them.
  void DropRemoved(tensorflow::GraphDef* graph) const;

  // Copies `graph`, which the view was built on, without removed nodes and without large values.
  // Returns, by node id, the index of the node in `out`, or -1.
  std::vector<int> CopyKept(const tensorflow::GraphDef& graph, tensorflow::GraphDef* out) const;

 private:
  bool HasColocated(int id) const {
    const auto found = colocated_.find(id);
    return found != colocated_.end() && found->second > 0;
  }
  // The other nodes that a node is colocated with.
  std::vector<int> ColocatedNodes(int id) const;
  void Remove(int id);

  const DecideContext& context_;
  const GraphView& view_;
  ConstantValues* const values_;
  std::vector<int> readers_;
  const std::vector<bool> is_control_producer_;
  // By node: how many nodes that are not removed are colocated with it.
  std::unordered_map<int, int> colocated_;
  std::unordered_set<int> removed_;
  std::unordered_set<std::string> removed_inputs_;  // control inputs from removed nodes
};

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_REWRITE_CONSTANTS_H_
