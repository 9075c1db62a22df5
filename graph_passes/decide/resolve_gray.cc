#include "graph_passes/decide/resolve_gray.h"

#include <algorithm>
#include <deque>
#include <unordered_map>

#include "graph_passes/graph/low_types.h"

namespace npu_precision {
namespace {

// The members of each class with more than one, by leader.
std::unordered_map<int, std::vector<int>> SharedClasses(const std::vector<int>& leader) {
  std::unordered_map<int, std::vector<int>> members;
  for (int g = 0; g < static_cast<int>(leader.size()); ++g) {
    if (leader[g] != g) members[leader[g]].push_back(g);
  }
  for (auto& entry : members) entry.second.push_back(entry.first);
  return members;
}

class Resolver {
 public:
  Resolver(const GraphView& view, const std::vector<int>& leader, const SmallOperands& small,
           tensorflow::DataType low_type, std::vector<GroupState>* groups)
      : view_(view),
        leader_(leader),
        small_(small),
        low_type_(low_type),
        groups_(*groups),
        classes_(SharedClasses(leader)) {}

  // Votes only rise, so each class is propagated twice at most, whatever the order of the nodes.
  void Run() {
    for (int id = 0; id < view_.size(); ++id) {
      for (int k = 0; k < view_.num_inputs(id); ++k) Meet(id, k);
    }
    while (!risen_.empty()) {
      const int leader = risen_.front();
      risen_.pop_front();
      const auto shared = classes_.find(leader);
      if (shared == classes_.end()) {
        Propagate(leader);
      } else {
        for (int member : shared->second) Propagate(member);
      }
    }
    for (int g = 0; g < view_.num_groups(); ++g) groups_[g] = groups_[leader_[g]];
  }

 private:
  // Meets the group that input `index` of a node is bound to with the vote on that input.
  void Meet(int id, int index) {
    const int group = view_.GroupOf(InputPort{id, index});
    if (group == kNoGroup) return;
    const int leader = leader_[group];
    GroupState& state = groups_[leader];
    if (state.kind == GroupState::kDecided) return;
    int voter;
    Vote vote = VoteOn(view_, leader_, groups_, small_, low_type_, id, index, &voter);
    if (state.kind == GroupState::kFollowsOrKeeps && vote == Vote::kLowered) vote = Vote::kKept;
    if (vote <= state.vote) return;
    state.vote = vote;
    risen_.push_back(leader);
  }

  // Propagates the vote of a group to its consumers, and through Casts that this optimizer
  // inserted to the consumers of those.
  void Propagate(int group) {
    const int id = view_.node_of_group(group);
    view_.VisitOutputs(group, [&](int port) {
      view_.VisitThroughInserted(view_.fanout({id, port}), [this](const InputPort& consumer) {
        Meet(consumer.node, consumer.index);
      });
    });
  }

  const GraphView& view_;
  const std::vector<int>& leader_;
  const SmallOperands& small_;
  const tensorflow::DataType low_type_;
  std::vector<GroupState>& groups_;
  const std::unordered_map<int, std::vector<int>> classes_;
  std::deque<int> risen_;  // leaders whose vote is to be propagated
};

}  // namespace

void ResolveGray(const GraphView& view, const std::vector<int>& leader, const SmallOperands& small,
                 tensorflow::DataType low_type, std::vector<GroupState>* groups) {
  Resolver(view, leader, small, low_type, groups).Run();
}

Vote VoteOn(const GraphView& view, const std::vector<int>& leader,
            const std::vector<GroupState>& groups, const SmallOperands& small,
            tensorflow::DataType low_type, int id, int index, int* voter) {
  const OutputPort direct = view.fanin(id)[index];
  const OutputPort port = view.LookThroughInserted(direct);
  *voter = port.node;
  // A bias is a row beside many: a Cast of it costs nothing.
  if (index == 1 && view.node(id).op() == "BiasAdd") return Vote::kUnknown;
  if (small.count({id, index}) != 0) return Vote::kUnknown;
  if (view.op_def(port.node) == nullptr) return Vote::kKept;
  if (port.node != direct.node) {
    const tensorflow::DataType dtype = view.dtype(port);
    if (dtype == low_type) return Vote::kLowered;
    // Another run, in the mode of other autocast() marks, inserted the Cast. This run kept the
    // nodes of that run.
    if (IsLowType(dtype) && IsLowType(low_type)) return Vote::kKept;
  }
  const int group = view.GroupOf(port);
  return group == kNoGroup ? Vote::kKept : groups[leader[group]].vote;
}

}  // namespace npu_precision
