#include "graph_passes/decide/shared_dtypes.h"

#include "graph_passes/graph/op_set.h"
#include "graph_passes/graph/op_traits.h"
#include "graph_passes/graph/union_find.h"

namespace npu_precision {
namespace {

void JoinPlainAttributes(const GraphView& view, const std::vector<bool>& can_change, int id,
                         UnionFind* classes) {
  int first = -1;
  for (int g = 0; g < view.num_groups(id); ++g) {
    const int group = view.first_group(id) + g;
    if (view.groups(id)[g].element >= 0 || !can_change[group]) continue;
    if (first >= 0) classes->Join(first, group);
    first = group;
  }
}

void JoinLoop(const GraphView& view, int merge, UnionFind* classes) {
  for (int k = 0; k < view.num_inputs(merge); ++k) {
    const OutputPort producer = view.fanin(merge)[k];
    if (!FeedsLoopMerge(view.node(producer.node).op())) continue;
    const int from = view.GroupOf(producer);
    const int to = view.GroupOf(InputPort{merge, k});
    if (from != kNoGroup && to != kNoGroup) classes->Join(from, to);
  }
}

// The demand of a group on its class. The demands are bits, because a group that must be lowered
// and one that cannot change make a class that is kept.
enum Demand { kNone = 0, kLowered = 1, kCannotChange = 2, kKept = kLowered | kCannotChange };

Demand DemandOf(const GroupState& state) {
  if (state.kind == GroupState::kFollowsOrKeeps) return kCannotChange;
  if (state.kind == GroupState::kFollows) return kNone;
  return state.vote == Vote::kKept ? kKept : state.vote == Vote::kLowered ? kLowered : kNone;
}

void Meet(const GroupState& other, GroupState* leader) {
  const Demand its = DemandOf(other), leaders = DemandOf(*leader);
  if ((its | leaders) == kKept) {
    *leader = GroupState::Decided(Vote::kKept);
  } else if (its > leaders) {
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
