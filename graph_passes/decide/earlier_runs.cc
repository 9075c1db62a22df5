#include "graph_passes/decide/earlier_runs.h"

#include "graph_passes/decide/kept_by_mark.h"
#include "graph_passes/decide/reasons.h"
#include "graph_passes/graph/fused_ops.h"
#include "graph_passes/graph/marks.h"

namespace npu_precision {
namespace {

// Whether the mark is of this mode, and no later run undid its changes.
bool StillHolds(const GraphView& view, const DecideContext& context, int id,
                const DecisionMark& mark) {
  if (KeptByMark(view.node(id), context, true) == Reason::kOutsideAutocast) return false;
  if (mark.reason == ReasonName(Reason::kInputsRounded)) {
    return context.mode.rule == ModeRule::kCube;
  }
  const bool raised = mark.decision == VerdictName(Verdict::kRaised);
  if (raised != (context.mode.rule == ModeRule::kForceFloat32)) return false;
  for (const TypeGroup& group : view.groups(id)) {
    if (group.dtype == context.NewDtype()) return true;
  }
  return false;
}

}  // namespace

bool RecallEarlierRun(const GraphView& view, const DecideContext& context, int id,
                      Decision* decision) {
  const tensorflow::NodeDef& node = view.node(id);
  DecisionMark mark;
  if (!ReadDecisionMark(node, &mark) || !StillHolds(view, context, id, mark)) return false;
  decision->verdict = VerdictFromName(mark.decision);
  decision->reason = ReasonFromName(mark.reason);
  decision->cause = view.IndexOf(mark.cause);
  decision->listing = context.lists->OfOp(OpsOf(node).front(), context.support->KindOf(node));
  for (ListColor color : {ListColor::kWhite, ListColor::kBlack, ListColor::kGray}) {
    if (mark.list == ListColorName(color)) decision->listing.color = color;
  }
  return true;
}

}  // namespace npu_precision
