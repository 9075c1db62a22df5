// The graph that InsertCasts writes: the nodes of the view under the same ids, which get the
// decided dtypes, and behind them the added nodes.
#ifndef NPU_PRECISION_GRAPH_PASSES_REWRITE_CHANGED_GRAPH_H_
#define NPU_PRECISION_GRAPH_PASSES_REWRITE_CHANGED_GRAPH_H_

#include <string>
#include <vector>

#include "graph_passes/decide/decision.h"
#include "graph_passes/graph/fused_ops.h"
#include "graph_passes/graph/graph_view.h"
#include "graph_passes/rewrite/unique_names.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace npu_precision {

class ChangedGraph {
 public:
  // All must outlive this object. `graph` has the view's nodes.
  ChangedGraph(const GraphView& view, const Decisions& decisions, tensorflow::GraphDef* graph);

  const GraphView& view() const { return view_; }  // index of the given graph
  const tensorflow::NodeDef& node(int id) const { return graph_.node(id); }
  tensorflow::NodeDef* mutable_node(int id) { return graph_.mutable_node(id); }

  // The decided dtypes; DT_INVALID if the node is opaque.
  tensorflow::DataType NewDtype(const OutputPort& tensor) const;
  tensorflow::DataType NewDtype(const InputPort& input) const;
  bool Changes(int id) const;

  // The text of an input that reads the tensor.
  std::string InputName(const OutputPort& tensor) const;
  // Gives the node a new name: "x/npu_changed", or another if a node has that name.
  const std::string& Rename(int id);
  bool IsRenamed(int id) const { return renamed_[id]; }

  std::string UniqueName(const std::string& wanted) { return names_.Take(wanted); }
  // "x/npu_cast_0_float16", for output 0 of x.
  std::string CastName(const OutputPort& from, tensorflow::DataType dtype);

  // The nodes that these functions add carry the mark of inserted nodes.
  tensorflow::NodeDef* AddCast(const std::string& name, const std::string& input,
                               tensorflow::DataType from, tensorflow::DataType to,
                               const std::string& device);
  tensorflow::NodeDef* AddCopy(const std::string& name, int id);
  tensorflow::NodeDef* AddNoOp(const std::string& name, const std::string& device);

 private:
  const GraphView& view_;
  const Decisions& decisions_;
  tensorflow::GraphDef& graph_;
  UniqueNames names_;
  std::vector<bool> renamed_;  // by node id
};

// Removes type information of later TensorFlows that repeats the dtypes; the runtime infers it
// anew.
void ForgetFullType(tensorflow::NodeDef* node);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_REWRITE_CHANGED_GRAPH_H_
