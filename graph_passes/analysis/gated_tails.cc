#include "graph_passes/analysis/gated_tails.h"

#include <algorithm>
#include <string>

#include "graph_passes/graph/op_traits.h"

namespace npu_precision {
namespace {

// A bound on the factors of a multiple.
constexpr int kMostFactors = 8;

bool IsConstant(const GraphView& view, const OutputPort& tensor) {
  return view.node(view.LookThroughInserted(tensor).node).op() == "Const";
}

// What the tensor is a multiple of: the tensor behind signs and constant factors.
OutputPort WithoutFactors(const GraphView& view, OutputPort tensor) {
  for (int factor = 0; factor < kMostFactors; ++factor) {
    tensor = view.LookThroughInserted(tensor);
    const std::string& op = view.node(tensor.node).op();
    const auto inputs = view.fanin(tensor.node);
    if (op == "Neg" && inputs.size() == 1) {
      tensor = inputs[0];
    } else if (op == "Mul" && inputs.size() == 2 && IsConstant(view, inputs[0])) {
      tensor = inputs[1];
    } else if ((op == "Mul" || Divides(op)) && inputs.size() == 2 && IsConstant(view, inputs[1])) {
      tensor = inputs[0];
    } else {
      break;
    }
  }
  return tensor;
}

}  // namespace

bool IsGatedTail(const GraphView& view, int id) {
  if (view.node(id).op() != "Erfc" || view.num_fanin(id) != 1) return false;
  const OutputPort gated = WithoutFactors(view, view.fanin(id)[0]);
  bool weighs_products = true, weighs_argument = false;
  view.VisitThroughInserted(view.fanout(id), [&](const InputPort& use) {
    const auto inputs = view.fanin(use.node);
    if (view.node(use.node).op() != "Mul" || inputs.size() != 2) {
      weighs_products = false;
      return;
    }
    weighs_argument |= WithoutFactors(view, inputs[1 - use.index]) == gated;
  });
  return weighs_products && weighs_argument;
}

}  // namespace npu_precision
