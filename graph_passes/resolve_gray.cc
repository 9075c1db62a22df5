#include "graph_passes/resolve_gray.h"

#include <algorithm>
#include <deque>
#include <unordered_map>

#include "graph_passes/marks.h"
#include "graph_passes/op_traits.h"

namespace npu_precision {
namespace {

OutputPort ThroughInsertedCasts(const GraphView& view, OutputPort port) {
  // The bound ends the walk on a damaged graph whose Casts form a cycle.
  for (int hops = 0; hops < view.size() && IsInsertedCast(view.node(port.node)); ++hops) {
    port = view.fanin(port.node)[0];
  }
  return port;
}

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
  Resolver(const GraphView& view, const std::vector<int>& leader, tensorflow::DataType low_type,
           std::vector<GroupState>* groups)
      : view_(view),
        leader_(leader),
        low_type_(low_type),
        groups_(*groups),
        classes_(SharedClasses(leader)),
        node_of_group_(view.num_groups()),
        queued_(view.size(), false) {
    for (int id = 0; id < view.size(); ++id) {
      for (int g = 0; g < view.groups(id).size(); ++g) {
        node_of_group_[view.first_group(id) + g] = id;
      }
    }
  }

  void Run() {
    for (int id = 0; id < view_.size(); ++id) Enqueue(id);
    while (!queue_.empty()) {
      const int id = queue_.front();
      queue_.pop_front();
      queued_[id] = false;
      for (int g = 0; g < view_.groups(id).size(); ++g) Update(view_.first_group(id) + g);
    }
    for (int g = 0; g < view_.num_groups(); ++g) groups_[g] = groups_[leader_[g]];
  }

 private:
  void Enqueue(int id) {
    if (queued_[id]) return;
    queued_[id] = true;
    queue_.push_back(id);
  }

  void Update(int group) {
    const int leader = leader_[group];
    GroupState& state = groups_[leader];
    if (state.kind == GroupState::kDecided) return;
    Vote vote = state.vote;
    const auto shared = classes_.find(leader);
    if (shared == classes_.end()) {
      vote = std::max(vote, VoteOnGroup(leader));
    } else {
      for (int member : shared->second) vote = std::max(vote, VoteOnGroup(member));
    }
    if (state.kind == GroupState::kFollowsOrKeeps && vote == Vote::kLowered) vote = Vote::kKept;
    if (vote == state.vote) return;
    state.vote = vote;
    if (shared == classes_.end()) {
      EnqueueConsumers(node_of_group_[leader]);
    } else {
      for (int member : shared->second) EnqueueConsumers(node_of_group_[member]);
    }
  }

  Vote VoteOnGroup(int group) const {
    const int id = node_of_group_[group];
    Vote vote = Vote::kUnknown;
    for (int k = 0; k < view_.inputs(id).size(); ++k) {
      const Port& port = view_.inputs(id)[k];
      if (port.group == kFixedDtype || view_.first_group(id) + port.group != group) continue;
      int voter;
      vote = std::max(vote, VoteOn(view_, leader_, groups_, low_type_, id, k, &voter));
    }
    return vote;
  }

  void EnqueueConsumers(int id) {
    for (const InputPort& consumer : view_.fanout(id)) {
      if (!IsInsertedCast(view_.node(consumer.node))) {
        Enqueue(consumer.node);
        continue;
      }
      // A Cast of ours has consumers that look through it; it is never followed by another.
      for (const InputPort& behind : view_.fanout(consumer.node)) Enqueue(behind.node);
    }
  }

  const GraphView& view_;
  const std::vector<int>& leader_;
  const tensorflow::DataType low_type_;
  std::vector<GroupState>& groups_;
  const std::unordered_map<int, std::vector<int>> classes_;
  std::vector<int> node_of_group_;
  std::vector<bool> queued_;
  std::deque<int> queue_;
};

}  // namespace

void ResolveGray(const GraphView& view, const std::vector<int>& leader,
                 tensorflow::DataType low_type, std::vector<GroupState>* groups) {
  Resolver(view, leader, low_type, groups).Run();
}

Vote VoteOn(const GraphView& view, const std::vector<int>& leader,
            const std::vector<GroupState>& groups, tensorflow::DataType low_type, int id, int index,
            int* voter) {
  const OutputPort direct = view.fanin(id)[index];
  const OutputPort port = ThroughInsertedCasts(view, direct);
  *voter = port.node;
  if (view.op_def(port.node) == nullptr) return Vote::kKept;
  if (port.node != direct.node && view.dtype(port) == low_type) return Vote::kLowered;
  const Port& output = view.outputs(port.node)[port.port];
  if (output.group != kFixedDtype) {
    return groups[leader[view.first_group(port.node) + output.group]].vote;
  }
  return IsNeutralSource(view.node(port.node).op()) ? Vote::kUnknown : Vote::kKept;
}

std::vector<int> ClassLeaders(const GraphView& view) {
  std::vector<int> leader(view.num_groups());
  for (int g = 0; g < view.num_groups(); ++g) leader[g] = g;
  const auto find = [&leader](int g) {
    while (leader[g] != g) g = leader[g] = leader[leader[g]];
    return g;
  };
  for (int id = 0; id < view.size(); ++id) {
    if (!IsMerge(view.node(id).op()) || view.op_def(id) == nullptr) continue;
    for (int k = 0; k < view.inputs(id).size(); ++k) {
      const OutputPort producer = view.fanin(id)[k];
      if (!FeedsLoopMerge(view.node(producer.node).op())) continue;
      const Port& output = view.outputs(producer.node)[producer.port];
      const Port& input = view.inputs(id)[k];
      if (output.group == kFixedDtype || input.group == kFixedDtype) continue;
      const int a = find(view.first_group(producer.node) + output.group);
      const int b = find(view.first_group(id) + input.group);
      leader[std::max(a, b)] = std::min(a, b);
    }
  }
  for (int g = 0; g < view.num_groups(); ++g) leader[g] = find(g);
  return leader;
}

}  // namespace npu_precision
