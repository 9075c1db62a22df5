#include "graph_passes/resolve_gray.h"

#include <algorithm>
#include <deque>
#include <unordered_map>

#include "graph_passes/marks.h"
#include "graph_passes/op_traits.h"
#include "graph_passes/union_find.h"

namespace npu_precision {
namespace {

OutputPort ThroughInserted(const GraphView& view, OutputPort port) {
  // The bound ends the walk on a damaged graph whose Casts form a cycle.
  for (int hops = 0; hops < view.size() && IsInserted(view.node(port.node)); ++hops) {
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

  // Consumers look through Casts of ours, so those behind such Casts hear the vote too.
  void EnqueueConsumers(int id) {
    std::vector<int> producers = {id};
    // The bound ends the walk on a damaged graph whose Casts form a cycle.
    for (size_t i = 0; i < producers.size() && static_cast<int>(i) <= view_.size(); ++i) {
      for (const InputPort& consumer : view_.fanout(producers[i])) {
        if (IsInserted(view_.node(consumer.node))) {
          producers.push_back(consumer.node);
        } else {
          Enqueue(consumer.node);
        }
      }
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
  const OutputPort port = ThroughInserted(view, direct);
  *voter = port.node;
  if (view.op_def(port.node) == nullptr) return Vote::kKept;
  if (port.node != direct.node && view.dtype(port) == low_type) return Vote::kLowered;
  const Port& output = view.outputs(port.node)[port.port];
  if (output.group != kFixedDtype) {
    return groups[leader[view.first_group(port.node) + output.group]].vote;
  }
  return Vote::kKept;
}

std::vector<int> ClassLeaders(const GraphView& view, const std::vector<bool>& can_change,
                              const std::vector<Handle>& handles) {
  UnionFind classes(view.num_groups());
  for (int id = 0; id < view.size(); ++id) {
    JoinPlainAttributes(view, can_change, id, &classes);
    if (view.op_def(id) != nullptr && IsMerge(view.node(id).op())) JoinLoop(view, id, &classes);
  }
  for (const Handle& handle : handles) {
    for (int group : handle.groups) classes.Join(handle.groups.front(), group);
  }
  return classes.Leaders();
}

}  // namespace npu_precision
