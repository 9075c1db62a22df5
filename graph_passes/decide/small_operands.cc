#include "graph_passes/decide/small_operands.h"

#include <string>

#include "graph_passes/analysis/moderate_scales.h"
#include "graph_passes/analysis/product_flops.h"
#include "graph_passes/decide/reasons.h"
#include "graph_passes/graph/op_traits.h"
#include "tensorflow/core/framework/tensor_shape.h"

namespace npu_precision {
namespace {

// A Cast of so much less takes no time beside the op.
constexpr double kTimesSmaller = 16;

class Finder {
 public:
  Finder(const GraphView& view, const ConstantValues& values, const DecideContext& context,
         const NodeClasses& classes, const Decisions& decisions)
      : view_(view), values_(values), context_(context), classes_(classes), decisions_(decisions) {}

  SmallOperands Run() const {
    SmallOperands found;
    if (!context_.shapes) return found;
    for (int id = 0; id < view_.size(); ++id) {
      if (!Combines(id)) continue;
      for (int index : {0, 1}) {
        if (IsSmall(id, index) && IsFree(id, index)) found.insert({id, index});
      }
    }
    return found;
  }

 private:
  bool Combines(int id) const {
    const std::string& op = view_.node(id).op();
    return (op == "Mul" || AddsOrSubtracts(op)) && view_.num_inputs(id) == 2 &&
           classes_.nodes[id].listing.color == ListColor::kGray &&
           context_.Changes(view_.inputs(id)[0].dtype) &&
           context_.support->KindOf(view_.node(id)) == DeviceKind::kGpu;
  }

  // Whether only lists and votes keep what computes the operand.
  bool IsFree(int id, int index) const {
    const auto is_free = [this](int from) {
      const NodeClass& node = classes_.nodes[from];
      const Reason reason = decisions_.nodes[from].reason;
      const bool is_kept_for_values =
          KindOf(reason) == ReasonKind::kKeepRule && reason != Reason::kBeforeMagnifier;
      return node.listing.edited == Edited::kNo && node.custom == nullptr &&
             KindOf(node.fixed) != ReasonKind::kNode && !is_kept_for_values;
    };
    return IsModerateScale(view_, values_, context_.fed, view_.fanin(id)[index], is_free);
  }

  bool IsSmall(int id, int index) const {
    const double own = Elements(view_.fanin(id)[index]);
    const double other = Elements(view_.fanin(id)[1 - index]);
    return own > 1 && kTimesSmaller * own <= other;
  }

  double Elements(const OutputPort& tensor) const {
    const OutputPort from = view_.LookThroughInserted(tensor);
    return ElementsOfSample(context_.shapes(view_.node(from.node).name(), from.port));
  }

  const GraphView& view_;
  const ConstantValues& values_;
  const DecideContext& context_;
  const NodeClasses& classes_;
  const Decisions& decisions_;
};

}  // namespace

SmallOperands FindSmallOperands(const GraphView& view, const ConstantValues& values,
                                const DecideContext& context, const NodeClasses& classes,
                                const Decisions& decisions) {
  return Finder(view, values, context, classes, decisions).Run();
}

}  // namespace npu_precision
