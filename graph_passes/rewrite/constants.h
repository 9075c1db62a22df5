// Constants behind Identity nodes, as frozen variables are, and which of them nothing reads any
// more.
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

// Of the constant that `tensor` is, or is a copy or a Cast of; nullptr for any other, and for what
// the caller feeds.
const tensorflow::TensorShapeProto* ShapeOfConstant(const GraphView& view,
                                                    const ConstantValues& values,
                                                    const std::set<std::string>& fed,
                                                    OutputPort tensor);

class Constants {
 public:
  // All must outlive this object. `values` has those that the view's graph lacks.
  Constants(const DecideContext& context, const GraphView& view, ConstantValues* values);

  // Preserved or fed: what it yields is not ours to change.
  bool IsFixed(int id) const;
  // Another node has a control dependency on it, or is colocated with it.
  bool IsPinned(int id) const { return is_control_producer_[id] || HasColocated(id); }

  // The nodes from the producer of a tensor back to its Const, which is last; empty where it does
  // not come from one, or where a node between is fixed or has control inputs.
  std::vector<int> WayBack(const OutputPort& tensor) const;

  // Of the Const at the end of a way; nullptr where it has none.
  const tensorflow::TensorProto* Value(const std::vector<int>& way) const;

  // A reader of the way's first node is gone. So are the nodes that then have no reader left,
  // unless another node is colocated with them. Control dependencies on them go too. Where the
  // Const has control inputs itself, a node with a control dependency on it stays.
  void Release(const std::vector<int>& way);
  // Whether any node had a control dependency on what is gone.
  bool DropsControlInputs() const { return !gone_inputs_.empty(); }

  // Takes out of a node's inputs the control inputs from what is gone.
  void DropControlInputs(tensorflow::NodeDef* node) const;

  // Takes what is gone out of `graph`, which the view was built on and no longer fits, and out of
  // the control inputs of the others.
  void DropGone(tensorflow::GraphDef* graph) const;

  // `graph`, which the view was built on, without what is gone and without large values. The result
  // has, by id, where a node is in `out`, or -1.
  std::vector<int> CopyKept(const tensorflow::GraphDef& graph, tensorflow::GraphDef* out) const;

 private:
  bool HasColocated(int id) const {
    const auto found = colocated_.find(id);
    return found != colocated_.end() && found->second > 0;
  }
  // The other nodes that a node is colocated with.
  std::vector<int> PlacesOf(int id) const;
  void Go(int id);

  const DecideContext& context_;
  const GraphView& view_;
  ConstantValues* const values_;
  std::vector<int> readers_;
  const std::vector<bool> is_control_producer_;
  std::unordered_map<int, int> colocated_;  // by node, how many others with it that are not gone
  std::unordered_set<int> gone_;
  std::unordered_set<std::string> gone_inputs_;  // control inputs from what is gone
};

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_REWRITE_CONSTANTS_H_
