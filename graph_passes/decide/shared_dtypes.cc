#include "graph_passes/decide/shared_dtypes.h"

#include "graph_passes/graph/op_set.h"
#include "graph_passes/graph/op_traits.h"
#include "graph_passes/graph/union_find.h"

namespace npu_precision {
namespace {

void JoinPlainAttributes(const GraphView& view, const std::vector<bool>& can_change, int id,
                         UnionFind* classes) {
  int first = -1;
  for (int g = 0; g < view.groups(id).size(); ++g) {
    const int group = view.first_group(id) + g;
    if (view.groups(id)[g].element >= 0 || !can_change[group]) continue;
    if (first >= 0) classes->Join(first, group);
    first = group;
  }
}

void JoinLoop(const GraphView& view, int merge, UnionFind* classes) {
  for (int k = 0; k < view.inputs(merge).size(); ++k) {
    const OutputPort producer = view.fanin(merge)[k];
    if (view.op_def(producer.node) == nullptr) continue;
    if (!FeedsLoopMerge(view.node(producer.node).op())) continue;
    const Port& output = view.outputs(producer.node)[producer.port];
    const Port& input = view.inputs(merge)[k];
    if (output.group == kFixedDtype || input.group == kFixedDtype) continue;
    classes->Join(view.first_group(producer.node) + output.group,
                  view.first_group(merge) + input.group);
  }
}

void Meet(const GroupState& other, GroupState* leader) {
  const auto rank = [](const GroupState& state) {
    if (state.kind == GroupState::kDecided && state.vote == Vote::kKept) return 3;
    if (state.kind == GroupState::kFollowsOrKeeps) return 2;
    if (state.kind == GroupState::kDecided && state.vote == Vote::kLowered) return 1;
    return 0;
  };
  // White next to a member that cannot change cannot be lowered.
  if (rank(other) + rank(*leader) == 3 && rank(other) != 3 && rank(*leader) != 3) {
    *leader = GroupState::Decided(Vote::kKept);
  } else if (rank(other) > rank(*leader)) {
    *leader = other;
  }
}

}  // namespace

std::vector<int> ClassLeaders(const GraphView& view, const std::vector<bool>& can_change,
                              const std::vector<Handle>& handles) {
  UnionFind classes(view.num_groups());
  const OpSet merges(view, IsMerge);
  for (int id = 0; id < view.size(); ++id) {
    JoinPlainAttributes(view, can_change, id, &classes);
    if (view.op_def(id) != nullptr && merges.Has(id)) JoinLoop(view, id, &classes);
  }
  for (const Handle& handle : handles) {
    for (int group : handle.groups) classes.Join(handle.groups.front(), group);
  }
  return classes.Leaders();
}

void AgreeInClasses(const std::vector<int>& leader, std::vector<GroupState>* groups) {
  std::vector<GroupState>& states = *groups;
  for (int g = 0; g < static_cast<int>(leader.size()); ++g) {
    if (leader[g] != g) Meet(states[g], &states[leader[g]]);
  }
  for (int g = 0; g < static_cast<int>(leader.size()); ++g) states[g] = states[leader[g]];
}

}  // namespace npu_precision
