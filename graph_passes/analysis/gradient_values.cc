#include "graph_passes/analysis/gradient_values.h"

#include <unordered_set>
#include <vector>

#include "graph_passes/analysis/forward_names.h"
#include "graph_passes/graph/op_traits.h"

namespace npu_precision {
namespace {

// If the first input is a gradient, the output is a gradient too.
bool OnlyMovesValues(const std::string& op) {
  static const auto* names = new std::unordered_set<std::string>{
      "Cast", "ExpandDims", "Identity", "Reshape", "Squeeze", "Transpose"};
  return names->count(op) != 0;
}

}  // namespace

bool IsGradient(const GraphView& view, const OutputPort& tensor) {
  std::vector<int> waiting = {tensor.node};
  std::unordered_set<int> seen;
  while (!waiting.empty()) {
    const int id = waiting.back();
    waiting.pop_back();
    if (!seen.insert(id).second || IsInGradientScope(view.node(id).name())) continue;
    const absl::Span<const OutputPort> inputs = view.fanin(id);
    if (inputs.empty()) return false;
    if (view.node(id).op() == "ConcatV2") {
      for (const OutputPort& input :
           inputs.subspan(0, inputs.size() - 1)) {  // the last is the axis
        waiting.push_back(input.node);
      }
    } else if (OnlyMovesValues(view.node(id).op())) {
      waiting.push_back(inputs[0].node);
    } else if (AddsAll(view.node(id).op())) {
      // The gradients of a variable that is read in several places are added outside of any op's
      // own scope.
      for (const OutputPort& input : inputs) waiting.push_back(input.node);
    } else {
      return false;
    }
  }
  return true;
}

}  // namespace npu_precision
