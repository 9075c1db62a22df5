// The inputs of a graph's nodes that configs/magnifiers.json lists.
#ifndef NPU_PRECISION_GRAPH_PASSES_DECIDE_MAGNIFIED_INPUTS_H_
#define NPU_PRECISION_GRAPH_PASSES_DECIDE_MAGNIFIED_INPUTS_H_

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "graph_passes/graph/graph_view.h"
#include "graph_passes/graph/op_set.h"
#include "graph_passes/lists/magnifiers.h"

namespace npu_precision {

class MagnifiedInputs {
 public:
  // Both must outlive the object.
  MagnifiedInputs(const GraphView& view, const Magnifiers& magnifiers);

  // For a chain of unary ops, which TensorFlow fuses into one op: the inputs that any of them
  // magnifies. The inputs of all ops but the first have unknown ranges.
  std::vector<MagnifiedInput> Of(int id) const;

  // The nodes that have such inputs, in the order of their names.
  const std::vector<int>& nodes() const { return nodes_; }
  // The values of MagnifiedInput::terms, the largest first; the last is 0.
  const std::set<int, std::greater<int>>& terms() const { return terms_; }

 private:
  std::vector<MagnifiedInput> OfOp(const std::string& op) const;

  const GraphView& view_;
  const Magnifiers& magnifiers_;
  const OpSet chains_;
  std::vector<int> nodes_;
  std::set<int, std::greater<int>> terms_ = {0};
};

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_DECIDE_MAGNIFIED_INPUTS_H_
