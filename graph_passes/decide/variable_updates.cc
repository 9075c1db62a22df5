#include "graph_passes/decide/variable_updates.h"

#include <bitset>
#include <map>

#include "graph_passes/analysis/handles.h"
#include "graph_passes/graph/op_set.h"
#include "graph_passes/graph/op_traits.h"

namespace npu_precision {
namespace {

using Groups = std::vector<bool>;

constexpr size_t kBatch = 256;
using Variables = std::bitset<kBatch>;

// The places of groups that have no place in the order of a batch.
constexpr int kNowhere = -1, kOpen = -2, kDone = -3;

class Updates {
 public:
  Updates(const GraphView& view, const std::set<std::string>& preserved,
          const std::vector<GroupState>& states)
      : view_(view), preserved_(preserved), states_(states), place_(view.num_groups(), kNowhere) {}

  std::vector<int> Run() {
    std::vector<int> last;
    const OpSet reads(view_, ReadsVariable), writes(view_, WritesVariable);
    if (writes.IsEmpty()) return {};
    for (int id = 0; id < view_.size(); ++id) {
      if (reads.Has(id)) AddRead(id);
      if (writes.Has(id)) AddWrite(id, &last);
    }
    Groups updates = NeverLoweredAfter(Reached(last));
    KeepBetween(&updates);
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
    return op == "Identity" || op == "Enter" || IsSwitch(op) || op == "RefIdentity" ||
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

  // Adds the gray groups on paths of gray groups from the reads of a variable to its writes.
  void KeepBetween(Groups* updates) {
    std::vector<const Uses*> batch;
    for (const auto& variable : variables_) {
      const Uses& uses = variable.second;
      if (!uses.first.empty() && !uses.last.empty()) batch.push_back(&uses);
      if (batch.size() < kBatch) continue;
      KeepBetween(batch, updates);
      batch.clear();
    }
    KeepBetween(batch, updates);
  }

  // Handles many variables at once, because their steps may share most of their groups, such as
  // those behind a sum over all gradients.
  void KeepBetween(const std::vector<const Uses*>& batch, Groups* updates) {
    const std::vector<int> groups = BeforeWrites(batch);
    std::vector<Variables> read(groups.size()), written(groups.size());
    for (size_t i = 0; i < groups.size(); ++i) place_[groups[i]] = static_cast<int>(i);
    for (size_t v = 0; v < batch.size(); ++v) {
      const Variables variable = Variables().set(v);
      for (int group : batch[v]->first) Join(variable, PlaceOf(group), &read);
      for (int group : batch[v]->last) Join(variable, PlaceOf(group), &written);
    }
    // Producers stand before consumers, except in a loop. A change in a loop may need another pass.
    const int count = static_cast<int>(groups.size());
    bool goes_round = true;
    while (goes_round) {
      goes_round = false;
      for (int i = 0; i < count; ++i) {
        view_.VisitConsumers(groups[i], [&](const InputPort& use) {
          const int to = PlaceOf(view_.GroupOf(use));
          if (Join(read[i], to, &read) && to < i) goes_round = true;
        });
      }
      for (int i = count - 1; i >= 0; --i) {
        view_.VisitProducers(groups[i], [&](const OutputPort& tensor) {
          const int from = PlaceOf(view_.GroupOf(tensor));
          if (Join(written[i], from, &written) && from > i) goes_round = true;
        });
      }
    }
    for (size_t i = 0; i < groups.size(); ++i) {
      if ((read[i] & written[i]).any()) (*updates)[groups[i]] = true;
      place_[groups[i]] = kNowhere;
    }
  }

  // The gray groups from which paths of gray groups lead to a write, producers before consumers.
  std::vector<int> BeforeWrites(const std::vector<const Uses*>& batch) {
    std::vector<int> open, order;
    for (const Uses* uses : batch) open.insert(open.end(), uses->last.begin(), uses->last.end());
    while (!open.empty()) {
      const int group = open.back();
      if (group == kNoGroup || !IsGray(group) || place_[group] == kDone) {
        open.pop_back();
      } else if (place_[group] == kOpen) {
        open.pop_back();
        place_[group] = kDone;
        order.push_back(group);
      } else {
        place_[group] = kOpen;
        PushProducers(group, &open);
      }
    }
    return order;
  }

  int PlaceOf(int group) const { return group == kNoGroup ? kNowhere : place_[group]; }

  // Returns whether `variables` changed.
  static bool Join(const Variables& more, int place, std::vector<Variables>* variables) {
    if (place == kNowhere) return false;
    Variables& there = (*variables)[place];
    const Variables before = there;
    there |= more;
    return there != before;
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
  std::vector<int> place_;         // of each group in the current batch
};

}  // namespace

std::vector<int> VariableUpdates(const GraphView& view, const std::set<std::string>& preserved,
                                 const std::vector<GroupState>& groups) {
  return Updates(view, preserved, groups).Run();
}

}  // namespace npu_precision
