#include "graph_passes/decide/conclude.h"

#include "graph_passes/decide/apply_custom_dtypes.h"
#include "graph_passes/decide/earlier_runs.h"
#include "graph_passes/decide/explain_gray.h"
#include "graph_passes/decide/reasons.h"

namespace npu_precision {
namespace {

bool LineAsksForChange(const DecideState& state, int id) {
  bool asks = false;
  for (int g = 0; g < state.view.num_groups(id); ++g) {
    asks |= state.classes.can_change[state.view.first_group(id) + g] &&
            AsksForChange(state.context,
                          WantedOfGroup(state.view, id, g, *state.classes.nodes[id].custom));
  }
  return asks;
}

// Whether any group of the node changes.
bool SetDtypes(int id, DecideState* state) {
  bool changes = false;
  for (int g = 0; g < state->view.num_groups(id); ++g) {
    const int group = state->view.first_group(id) + g;
    if (!state->classes.can_change[group] || state->groups[group].vote != Vote::kLowered) continue;
    state->decisions.group_dtypes[group] = state->context.NewDtype();
    changes = true;
  }
  return changes;
}

void ConcludeNode(int id, const GrayExplainer& explain, DecideState* state) {
  const NodeClass& node = state->classes.nodes[id];
  Decision& decision = state->decisions.nodes[id];
  const bool changes = SetDtypes(id, state);
  if (!changes && RecallEarlierRun(state->view, state->context, id, &decision)) return;
  if (changes) {
    const bool raises = state->mode() == ModeRule::kForceFloat32;
    decision.verdict = raises ? Verdict::kRaised : Verdict::kLowered;
  }
  if (!node.is_float || node.is_neutral) return;
  if (changes && KindOf(decision.reason) == ReasonKind::kKeepRule) {
    // A rule that kept one of several groups does not explain why others were lowered.
    const bool is_white = node.listing.color == ListColor::kWhite;
    decision.reason = is_white ? Reason::kWhiteList : Reason::kNone;
    decision.cause = -1;
  }
  if (decision.reason == Reason::kCustomized && changes == LineAsksForChange(*state, id)) return;
  if (decision.reason == Reason::kMagnifies) {
    explain.ExplainMagnifier(id, state->decisions, &decision);
  } else if (decision.reason == Reason::kNone || LowersByItself(decision.reason) != changes) {
    explain.Explain(id, changes, &decision);
  }
}

}  // namespace

void Conclude(DecideState* state) {
  const GrayExplainer explain(state->view, state->context, state->classes, state->leader,
                              state->groups, state->small_operands, state->decisions);
  for (int id = 0; id < state->view.size(); ++id) ConcludeNode(id, explain, state);
}

}  // namespace npu_precision
