// Changes type groups from a low type to float32, and rounds the values to the low type.
//
// Before: MatMul(float16) -> Relu(float16) -> Cast -> Exp.
// After: MatMul(float32) -> Cast -> Cast -> Relu(float32) -> Cast -> Cast -> Exp, where each pair
// of Casts goes through float16 and back.
#ifndef NPU_PRECISION_GRAPH_PASSES_REWRITE_RAISE_GROUPS_H_
#define NPU_PRECISION_GRAPH_PASSES_REWRITE_RAISE_GROUPS_H_

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "graph_passes/graph/graph_view.h"
#include "graph_passes/rewrite/unique_names.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace npu_precision {

class GroupRaiser {
 public:
  // The first two must outlive this object; `view` is built on `graph`. `raised`: the groups, by
  // number. `suffix` is in the names of Casts: "x/SUFFIX_0_float16".
  GroupRaiser(const GraphView& view, tensorflow::GraphDef* graph, std::vector<bool> raised,
              std::string suffix);

  // Sets the dtypes, and connects every input. Adds Casts behind the existing nodes, one for each
  // tensor and dtype. `reads_unrounded(id)`: whether a raised input reads a raised output of node
  // `id` without Casts between. Returns whether anything changed.
  bool Run(const std::function<bool(int id)>& reads_unrounded);

 private:
  bool IsRaised(int group) const { return group != kNoGroup && raised_[group]; }
  void Connect(int id, int k, const std::function<bool(int id)>& reads_unrounded);
  const std::string& Cast(const OutputPort& from, const std::string& input,
                          tensorflow::DataType source, tensorflow::DataType wanted);

  const GraphView& view_;
  tensorflow::GraphDef& graph_;
  const std::vector<bool> raised_;  // by group
  const std::string suffix_;
  UniqueNames names_;
  bool changed_ = false;
  std::map<std::pair<std::pair<int, int>, tensorflow::DataType>, std::string> casts_;
};

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_REWRITE_RAISE_GROUPS_H_
