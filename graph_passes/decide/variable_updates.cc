#include "graph_passes/decide/variable_updates.h"

#include <map>
#include <unordered_set>

#include "graph_passes/analysis/handles.h"
#include "graph_passes/graph/op_set.h"
#include "graph_passes/graph/op_traits.h"

namespace npu_precision {
namespace {

using Groups = std::vector<bool>;

class Updates {
 public:
  Updates(const GraphView& view, const std::set<std::string>& preserved,
          const std::vector<GroupState>& states)
      : view_(view), preserved_(preserved), states_(states) {}

  std::vector<int> Run() {
    std::vector<int> last;
    const OpSet reads(view_, ReadsVariable), writes(view_, WritesVariable);
    if (writes.IsEmpty()) return {};
    for (int id = 0; id < view_.size(); ++id) {
      if (reads.Has(id)) AddRead(id);
      if (writes.Has(id)) AddWrite(id, &last);
    }
    Groups updates = NeverLoweredAfter(Reached(last));
    for (const auto& variable : variables_) KeepBetween(variable.second, &updates);
    std::vector<int> found;
    for (int g = 0; g < view_.num_groups(); ++g) {
      if (updates[g]) found.push_back(g);
    }
    return found;
  }

 private:
  bool IsGray(int group) const { return states_[group].kind != GroupState::kDecided; }

  // The groups that read a variable and those whose values are written to it.
  struct Uses {
    std::vector<int> first, last;
  };

  // The node of the variable, or of its handle, that node `id` reads or writes.
  int VariableOf(int id) const {
    if (view_.num_fanin(id) == 0) return id;
    const auto yields_same = [this](int node) { return YieldsSameVariable(view_.node(node).op()); };
    return view_.LookThrough(view_.fanin(id)[0], yields_same).node;
  }

  static bool YieldsSameVariable(const std::string& op) {
    return op == "Identity" || op == "Enter" || op == "Switch" || op == "RefIdentity" ||
           op == "RefEnter" || op == "RefSwitch";
  }

  void AddRead(int id) {
    Uses& uses = variables_[VariableOf(id)];
    for (const InputPort& use : view_.fanout(id)) uses.first.push_back(view_.GroupOf(use));
  }

  void AddWrite(int id, std::vector<int>* last) {
    Uses& uses = variables_[VariableOf(id)];
    for (const OutputPort& value : view_.fanin(id)) {
      uses.last.push_back(view_.GroupOf(value));
      last->push_back(uses.last.back());
    }
  }

  // The gray groups from which paths of gray groups lead to `last`.
  Groups Reached(std::vector<int> last) const {
    Groups reached(view_.num_groups(), false);
    while (!last.empty()) {
      const int group = last.back();
      last.pop_back();
      if (group == kNoGroup || !IsGray(group) || reached[group]) continue;
      reached[group] = true;
      PushProducers(group, &last);
    }
    return reached;
  }

  // Adds the gray groups on paths of gray groups from the reads of one variable to its writes.
  void KeepBetween(const Uses& uses, Groups* updates) const {
    if (uses.first.empty() || uses.last.empty()) return;
    std::unordered_set<int> before_write, between;
    std::vector<int> groups = uses.last;
    while (!groups.empty()) {
      const int group = groups.back();
      groups.pop_back();
      if (group == kNoGroup || !IsGray(group) || !before_write.insert(group).second) continue;
      PushProducers(group, &groups);
    }
    groups = uses.first;
    while (!groups.empty()) {
      const int group = groups.back();
      groups.pop_back();
      if (before_write.count(group) == 0 || !between.insert(group).second) continue;
      (*updates)[group] = true;
      PushConsumers(group, &groups);
    }
  }

  void PushConsumers(int group, std::vector<int>* groups) const {
    view_.VisitConsumers(group,
                         [&](const InputPort& use) { groups->push_back(view_.GroupOf(use)); });
  }

  void PushProducers(int group, std::vector<int>* groups) const {
    view_.VisitProducers(group,
                         [&](const OutputPort& from) { groups->push_back(view_.GroupOf(from)); });
  }

  // Those of `groups` from which no path of gray groups leads to a group that may be lowered.
  Groups NeverLoweredAfter(Groups groups) const {
    std::vector<int> out;
    for (int g = 0; g < view_.num_groups(); ++g) {
      if (groups[g] && MayBeLoweredAfter(g, groups)) out.push_back(g);
    }
    while (!out.empty()) {
      const int group = out.back();
      out.pop_back();
      if (group == kNoGroup || !groups[group]) continue;
      groups[group] = false;
      PushProducers(group, &out);
    }
    return groups;
  }

  bool MayBeLoweredAfter(int group, const Groups& updates) const {
    std::vector<int> consumers;
    PushConsumers(group, &consumers);
    for (int consumer : consumers) {
      if (consumer == kNoGroup) continue;
      const GroupState& state = states_[consumer];
      const bool lowered = state.kind == GroupState::kDecided && state.vote == Vote::kLowered;
      const bool follows = state.kind == GroupState::kFollows && !updates[consumer];
      if (lowered || (follows && IsUsed(consumer))) return true;
    }
    return false;
  }

  // Whether the values of a group are read, fetched or put behind a handle. A test for infinity
  // yields no float value, and the skipped branch of a step has no reader: both may run in float32.
  bool IsUsed(int group) const {
    const int id = view_.node_of_group(group);
    const bool is_fetched = preserved_.count(view_.node(id).name()) != 0;
    bool is_used = HasElementDtype(view_.node(id).op());
    view_.VisitOutputs(
        group, [&](int port) { is_used |= is_fetched || view_.fanout({id, port}).size() > 0; });
    return is_used;
  }

  const GraphView& view_;
  const std::set<std::string>& preserved_;
  const std::vector<GroupState>& states_;
  std::map<int, Uses> variables_;  // by the node that VariableOf finds
};

}  // namespace

std::vector<int> VariableUpdates(const GraphView& view, const std::set<std::string>& preserved,
                                 const std::vector<GroupState>& groups) {
  return Updates(view, preserved, groups).Run();
}

}  // namespace npu_precision
