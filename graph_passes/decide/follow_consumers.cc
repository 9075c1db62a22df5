#include "graph_passes/decide/follow_consumers.h"

#include <string>
#include <unordered_map>
#include <unordered_set>

#include "graph_passes/graph/op_set.h"
#include "graph_passes/graph/op_traits.h"

namespace npu_precision {
namespace {

using Names = std::unordered_set<std::string>;

// Whether an op that moves values has no cost, or the same cost for every dtype.
bool IsFree(const std::string& op) {
  static const auto* names =
      new Names{"Identity", "Snapshot",   "StopGradient", "PreventGradient", "EnsureShape",
                "Reshape",  "ExpandDims", "Squeeze",      "Shape",           "Size",
                "Rank",     "Exit",       "Merge",        "Switch",          "_SwitchN"};
  return names->count(op) != 0;
}

// Whether the op may run more often than its consumers: in each iteration, or for a branch that is
// not taken. It follows only with a producer that follows, so that no Cast comes right before it.
bool NeedsProducer(const std::string& op) {
  static const auto* names = new Names{"NextIteration",     "Switch",
                                       "_SwitchN",          "TensorListPushBack",
                                       "TensorListSetItem", "TensorArrayWriteV3"};
  return names->count(op) != 0;
}

class Follower {
 public:
  Follower(const GraphView& view, const DecideContext& context, const std::vector<Handle>& handles,
           const std::vector<int>& leader, const std::vector<GroupState>& groups)
      : view_(view),
        context_(context),
        handles_(handles),
        leader_(leader),
        groups_(groups),
        moves_values_(view, MovesValues),
        is_free_(view, IsFree),
        needs_producer_(view, NeedsProducer),
        switches_(view, IsSwitch),
        casts_(view, "Cast"),
        loop_conds_(view, "LoopCond"),
        may_follow_(view.num_groups()),
        reader_(view.num_groups(), kNoReader) {}

  std::vector<FollowsConsumer> Run() {
    if (!FindCandidates()) return {};
    for (int group : candidates_) {
      if (MustKeep(group)) Drop(group);
    }
    while (!dropped_.empty()) {
      const int leader = dropped_.back();
      dropped_.pop_back();
      PropagateDrop(leader);
    }
    std::vector<FollowsConsumer> followers;
    for (int group : candidates_) {
      const int reader = LoweredReader(group);
      if (Follows(group) && reader != kNoReader) AddRegion(leader_[group], reader, &followers);
    }
    return followers;
  }

 private:
  static constexpr int kNoReader = -1;

  bool Follows(int group) const { return may_follow_[leader_[group]]; }

  bool FindCandidates() {
    for (int g = 0; g < view_.num_groups(); ++g) {
      const GroupState& state = groups_[leader_[g]];
      if (state.kind != GroupState::kFollows || state.vote != Vote::kUnknown) continue;
      candidates_.push_back(g);
      members_[leader_[g]].push_back(g);
      may_follow_[leader_[g]] = true;
    }
    for (int group : candidates_) {
      const int id = view_.node_of_group(group);
      const TypeGroup& type = view_.group_numbered(group);
      const bool moves = (moves_values_.Has(id) || IsCastOfBool(id)) &&
                         context_.Changes(type.dtype) &&
                         context_.preserved.count(view_.node(id).name()) == 0;
      if (!moves) may_follow_[leader_[group]] = false;
    }
    for (const Handle& handle : handles_) {
      for (int group : handle.groups) {
        if (handle.adds) may_follow_[leader_[group]] = false;
      }
    }
    return !candidates_.empty();
  }

  // 0 and 1 have the same value in every dtype.
  bool IsCastOfBool(int id) const {
    return casts_.Has(id) && view_.inputs(id)[0].dtype == tensorflow::DT_BOOL;
  }

  // Whether the group must keep its dtype: a consumer reads it in that dtype, or its node needs a
  // producer that follows and has none.
  bool MustKeep(int group) const {
    bool keeps = false;
    view_.VisitConsumers(group,
                         [&](const InputPort& use) { keeps |= !IsLowered(use) && !Follows(use); });
    const int id = view_.node_of_group(group);
    if (keeps || !needs_producer_.Has(id)) return keeps;
    // A Switch without a LoopCond chooses a branch.
    if (switches_.Has(id) && !loop_conds_.Has(view_.fanin(id)[1].node)) return true;
    view_.VisitProducers(group, [&](const OutputPort& from) { keeps |= !Follows(from); });
    return keeps;
  }

  bool Follows(const InputPort& use) const {
    if (view_.IsTransparent(use.node)) return false;
    const int group = view_.GroupOf(use);
    return group != kNoGroup && Follows(group);
  }

  bool Follows(const OutputPort& tensor) const {
    const int group = view_.GroupOf(tensor);
    return group != kNoGroup && Follows(group);
  }

  bool IsLowered(const InputPort& use) const {
    if (view_.IsTransparent(use.node)) {
      return view_.outputs(use.node)[0].dtype == context_.NewDtype() && !RoundsForFloat32(use.node);
    }
    const int group = view_.GroupOf(use);
    return group != kNoGroup && groups_[leader_[group]].vote == Vote::kLowered;
  }

  // Whether an inserted Cast is the first of two, so that its tensor is read in float32.
  bool RoundsForFloat32(int cast) const {
    for (const InputPort& use : view_.fanout(cast)) {
      if (view_.IsTransparentCast(use.node) &&
          view_.outputs(use.node)[0].dtype == tensorflow::DT_FLOAT) {
        return true;
      }
    }
    return false;
  }

  void Drop(int group) {
    const int leader = leader_[group];
    if (!may_follow_[leader]) return;
    may_follow_[leader] = false;
    dropped_.push_back(leader);
  }

  // The producers of a group that keeps its dtype must keep theirs, and so must the consumers that
  // need a producer that follows.
  void PropagateDrop(int leader) {
    for (int group : members_.at(leader)) {
      view_.VisitProducers(group, [&](const OutputPort& tensor) {
        const int from = view_.GroupOf(tensor);
        if (from != kNoGroup) Drop(from);
      });
      view_.VisitConsumers(group, [&](const InputPort& use) {
        if (Follows(use) && needs_producer_.Has(use.node)) Drop(view_.GroupOf(use));
      });
    }
  }

  int LoweredReader(int group) const {
    int reader = kNoReader;
    view_.VisitConsumers(group, [&](const InputPort& use) {
      if (reader == kNoReader && IsLowered(use)) reader = use.node;
    });
    return reader;
  }

  // Returns a reader that is lowered by itself, if there is one, else a reader that follows.
  int OwnReader(int group) const {
    int reader = LoweredReader(group);
    view_.VisitConsumers(group, [&](const InputPort& use) {
      if (reader == kNoReader) reader = use.node;
    });
    return reader;
  }

  // Adds the class of `first`, which `reader` reads, and all groups that follow with it: its
  // producers that may follow and, because a lowered group has no other consumers, all their
  // consumers.
  void AddRegion(int first, int reader, std::vector<FollowsConsumer>* followers) {
    std::vector<int> region;
    Reach(first, reader, &region);
    bool gains = false;
    for (size_t i = 0; i < region.size(); ++i) {
      for (int group : members_.at(region[i])) {
        const int id = view_.node_of_group(group);
        gains |= !is_free_.Has(id);
        view_.VisitProducers(group, [&](const OutputPort& tensor) {
          const int from = view_.GroupOf(tensor);
          if (from != kNoGroup) Reach(leader_[from], id, &region);
        });
        view_.VisitConsumers(group, [&](const InputPort& use) {
          if (Follows(use)) Reach(leader_[view_.GroupOf(use)], reader_[region[i]], &region);
        });
      }
    }
    if (!gains) return;
    for (int leader : region) {
      for (int group : members_.at(leader)) {
        const int own = OwnReader(group);
        followers->push_back({group, own == kNoReader ? reader_[leader] : own});
      }
    }
  }

  void Reach(int leader, int reader, std::vector<int>* region) {
    if (!may_follow_[leader] || reader_[leader] != kNoReader) return;
    reader_[leader] = reader;
    region->push_back(leader);
  }

  const GraphView& view_;
  const DecideContext& context_;
  const std::vector<Handle>& handles_;
  const std::vector<int>& leader_;
  const std::vector<GroupState>& groups_;
  const OpSet moves_values_, is_free_, needs_producer_, switches_, casts_, loop_conds_;
  std::vector<int> candidates_;                        // gray groups without a vote
  std::unordered_map<int, std::vector<int>> members_;  // of candidates, by leader
  std::vector<bool> may_follow_;                       // by leader
  std::vector<int> reader_;   // node id, by leader, for classes in a region
  std::vector<int> dropped_;  // leaders whose keeping still has to be propagated
};

constexpr int Follower::kNoReader;

}  // namespace

std::vector<FollowsConsumer> FollowConsumers(const GraphView& view, const DecideContext& context,
                                             const std::vector<Handle>& handles,
                                             const std::vector<int>& leader,
                                             const std::vector<GroupState>& groups) {
  return Follower(view, context, handles, leader, groups).Run();
}

}  // namespace npu_precision
