#include "graph_passes/variable_updates.h"

#include "graph_passes/handles.h"
#include "graph_passes/op_traits.h"

namespace npu_precision {
namespace {

using Groups = std::vector<bool>;

class Updates {
 public:
  Updates(const GraphView& view, const std::vector<GroupState>& states)
      : view_(view), states_(states), node_of_group_(view.num_groups()) {
    for (int id = 0; id < view.size(); ++id) {
      for (int g = 0; g < view.groups(id).size(); ++g) {
        node_of_group_[view.first_group(id) + g] = id;
      }
    }
  }

  std::vector<int> Run() const {
    const Groups before_write = Reached(LastGrayBeforeWrites(), false);
    const Groups after_read = Reached(FirstGrayAfterReads(), true);
    const Groups only_written = NeverLoweredAfter(before_write);
    std::vector<int> updates;
    for (int g = 0; g < view_.num_groups(); ++g) {
      if (before_write[g] && (after_read[g] || only_written[g])) updates.push_back(g);
    }
    return updates;
  }

 private:
  bool IsGray(int group) const { return states_[group].kind != GroupState::kDecided; }

  // The number of the group that a port is bound to, or -1.
  int InputGroup(const InputPort& input) const {
    if (view_.op_def(input.node) == nullptr) return -1;
    const int group = view_.inputs(input.node)[input.index].group;
    return group == kFixedDtype ? -1 : view_.first_group(input.node) + group;
  }

  int OutputGroup(const OutputPort& output) const {
    if (view_.op_def(output.node) == nullptr) return -1;
    const int group = view_.outputs(output.node)[output.port].group;
    return group == kFixedDtype ? -1 : view_.first_group(output.node) + group;
  }

  std::vector<int> FirstGrayAfterReads() const {
    std::vector<int> first;
    for (int id = 0; id < view_.size(); ++id) {
      if (!ReadsVariable(view_.node(id).op())) continue;
      for (const InputPort& use : view_.fanout(id)) first.push_back(InputGroup(use));
    }
    return first;
  }

  std::vector<int> LastGrayBeforeWrites() const {
    std::vector<int> last;
    for (int id = 0; id < view_.size(); ++id) {
      if (!WritesVariable(view_.node(id).op())) continue;
      for (const OutputPort& value : view_.fanin(id)) last.push_back(OutputGroup(value));
    }
    return last;
  }

  // The gray groups that paths of gray groups lead to from `start`, along the edges or against
  // them.
  Groups Reached(std::vector<int> start, bool forward) const {
    Groups reached(view_.num_groups(), false);
    while (!start.empty()) {
      const int group = start.back();
      start.pop_back();
      if (group < 0 || !IsGray(group) || reached[group]) continue;
      reached[group] = true;
      forward ? PushConsumers(group, &start) : PushProducers(group, &start);
    }
    return reached;
  }

  void PushConsumers(int group, std::vector<int>* groups) const {
    for (const InputPort& use : view_.fanout(node_of_group_[group])) {
      if (OutputGroup(view_.fanin(use.node)[use.index]) == group) {
        groups->push_back(InputGroup(use));
      }
    }
  }

  void PushProducers(int group, std::vector<int>* groups) const {
    const int id = node_of_group_[group];
    for (int k = 0; k < view_.inputs(id).size(); ++k) {
      if (InputGroup({id, k}) == group) groups->push_back(OutputGroup(view_.fanin(id)[k]));
    }
  }

  // Of `groups`, those that no path of gray groups leads from to one that may be lowered.
  Groups NeverLoweredAfter(Groups groups) const {
    std::vector<int> out;
    for (int g = 0; g < view_.num_groups(); ++g) {
      if (groups[g] && MayBeLoweredAfter(g, groups)) out.push_back(g);
    }
    while (!out.empty()) {
      const int group = out.back();
      out.pop_back();
      if (group < 0 || !groups[group]) continue;
      groups[group] = false;
      PushProducers(group, &out);
    }
    return groups;
  }

  bool MayBeLoweredAfter(int group, const Groups& updates) const {
    std::vector<int> consumers;
    PushConsumers(group, &consumers);
    for (int consumer : consumers) {
      if (consumer < 0) continue;
      const GroupState& state = states_[consumer];
      const bool lowered = state.kind == GroupState::kDecided && state.vote == Vote::kLowered;
      const bool follows = state.kind == GroupState::kFollows && !updates[consumer];
      if (lowered || (follows && HandsOn(consumer))) return true;
    }
    return false;
  }

  // A test for infinity, say, does not: it may be made in float32 as well.
  bool HandsOn(int group) const {
    const int id = node_of_group_[group];
    for (int p = 0; p < view_.outputs(id).size(); ++p) {
      if (OutputGroup({id, p}) == group) return true;
    }
    return HasElementDtype(view_.node(id).op());
  }

  const GraphView& view_;
  const std::vector<GroupState>& states_;
  std::vector<int> node_of_group_;
};

}  // namespace

std::vector<int> VariableUpdates(const GraphView& view, const std::vector<GroupState>& groups) {
  return Updates(view, groups).Run();
}

}  // namespace npu_precision
