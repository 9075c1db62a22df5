#include "graph_passes/decide/keep_rules.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "graph_passes/graph/low_types.h"

namespace npu_precision {
namespace {

bool IsEdited(const NodeClasses& classes, int id) {
  return classes.nodes[id].listing.edited != Edited::kNo;
}

bool Rounds(const CustomDtypes& line) {
  return std::any_of(line.inputs.begin(), line.inputs.end(), IsLowType) ||
         std::any_of(line.outputs.begin(), line.outputs.end(), IsLowType);
}

bool MayBeLowered(const DecideState& state, int group) {
  const GroupState& group_state = state.groups[group];
  return state.classes.can_change[group] &&
         (group_state.kind == GroupState::kFollows || group_state.vote == Vote::kLowered);
}

bool HasFloat32(const DecideState& state, int id, int group) {
  return TargetAllows(state.view, state.classes.nodes[id].info, id,
                      group - state.view.first_group(id), tensorflow::DT_FLOAT);
}

}  // namespace

void Keep(const std::vector<KeptGroup>& all_kept, DecideState* state) {
  for (const KeptGroup& kept : all_kept) {
    if (!MayBeLowered(*state, kept.group)) continue;
    const int id = state->view.node_of_group(kept.group);
    if (state->mode() != ModeRule::kMix) {
      state->lowered_anyway.Add(kept.reason, state->view.node(id).name());
      continue;
    }
    if (IsEdited(state->classes, id) || !HasFloat32(*state, id, kept.group)) continue;
    state->groups[kept.group] = GroupState::Decided(Vote::kKept);
    state->decisions.nodes[id].reason = kept.reason;
    state->decisions.nodes[id].cause = kept.cause;
  }
}

void KeepGray(const std::vector<int>& groups, Reason reason, DecideState* state) {
  for (int group : groups) {
    if (state->groups[group].kind != GroupState::kFollows) continue;
    state->groups[group] = GroupState::Decided(Vote::kKept);
    state->decisions.nodes[state->view.node_of_group(group)].reason = reason;
  }
}

void WarnOfKeepRules(DecideState* state) {
  state->lowered_anyway.Warn(absl::StrCat(state->context.mode.name, " lowers "),
                             " that a mixed mode keeps in float32", &state->decisions.warnings);
}

// A mixlist entry for a node would be of no use if all nodes around it were kept. Besides, the
// constants behind the node are stored in the low type, so a second run could not follow the path.
std::vector<bool> EndsPath(const GraphView& view, const NodeClasses& classes) {
  std::vector<bool> ends(view.size());
  for (int id = 0; id < view.size(); ++id) {
    const NodeClass& node = classes.nodes[id];
    ends[id] = (IsEdited(classes, id) && node.listing.color != ListColor::kBlack) ||
               (node.custom != nullptr && Rounds(*node.custom));
  }
  return ends;
}

std::vector<KeptGroup> Accumulating(const GraphView& view,
                                    const std::vector<Accumulator>& accumulators) {
  std::vector<KeptGroup> kept;
  for (const Accumulator& each : accumulators) {
    if (view.num_outputs(each.node) == 0) continue;
    const int group = view.GroupOf(OutputPort{each.node, 0});
    if (group == kNoGroup) continue;
    kept.push_back({group, each.over_iterations ? Reason::kSumsIterations : Reason::kSumsCalls});
  }
  return kept;
}

}  // namespace npu_precision
