#include "graph_passes/decide/explain_gray.h"

#include <algorithm>

#include "graph_passes/decide/apply_custom_dtypes.h"
#include "graph_passes/decide/reasons.h"
#include "graph_passes/graph/op_traits.h"

namespace npu_precision {

using tensorflow::DataType;

GrayExplainer::GrayExplainer(const GraphView& view, const DecideContext& context,
                             const NodeClasses& classes, const std::vector<int>& leader,
                             const std::vector<GroupState>& groups, const SmallOperands& small,
                             const Decisions& before)
    : view_(view),
      context_(context),
      classes_(classes),
      leader_(leader),
      groups_(groups),
      small_(small) {
  FindDecidersOfHandles(before);
}

void GrayExplainer::Explain(int id, bool changes, Decision* decision) const {
  const bool was_decided = decision->reason != Reason::kNone;
  if (was_decided || !ByPredecessors(id, changes, decision)) ByItsClass(id, decision);
}

void GrayExplainer::ExplainMagnifier(int id, const Decisions& decisions, Decision* decision) const {
  if (classes_.nodes[id].listing.color != ListColor::kGray) return;
  Decision other;
  if (!ByPredecessors(id, false, &other) || other.reason != Reason::kGrayFollowsKept) return;
  if (decisions.nodes[other.cause].reason == Reason::kBeforeMagnifier) return;
  decision->reason = other.reason;
  decision->cause = other.cause;
}

// Names the first predecessor whose vote decided a gray node. Returns false if no predecessor voted
// so: then its class decided.
bool GrayExplainer::ByPredecessors(int id, bool changes, Decision* decision) const {
  const Vote wanted = changes ? Vote::kLowered : Vote::kKept;
  Vote strongest = Vote::kUnknown;
  for (int k = 0; k < view_.num_inputs(id); ++k) {
    const int group = view_.inputs(id)[k].group;
    if (group == kFixedDtype || !context_.Changes(view_.inputs(id)[k].dtype)) continue;
    // The statistics of a batch norm vote on their own dtype only.
    const bool can_change = classes_.can_change[view_.first_group(id) + group];
    if (!can_change && classes_.nodes[id].fixed == Reason::kNone) continue;
    // The vote on a dtype that stays does not explain why another dtype changed.
    if (changes && groups_[leader_[view_.first_group(id) + group]].vote == Vote::kKept) continue;
    int voter;
    const Vote vote = VoteOn(view_, leader_, groups_, small_, context_.NewDtype(), id, k, &voter);
    strongest = std::max(strongest, vote);
    if (vote != wanted) continue;
    decision->cause = voter;
    decision->reason = changes ? Reason::kGrayFollowsLowered : Reason::kGrayFollowsKept;
    if (changes) NameSmallOperand(id, decision);
    return true;
  }
  if (strongest == Vote::kLowered) {
    decision->reason = classes_.nodes[id].fixed;
    return decision->reason != Reason::kNone;
  }
  bool unknown = !changes;
  for (int g = 0; g < view_.num_groups(id); ++g) {
    const int group = view_.first_group(id) + g;
    if (!classes_.can_change[group] && classes_.nodes[id].fixed == Reason::kNone) continue;
    unknown &= groups_[leader_[group]].vote == Vote::kUnknown;
  }
  if (unknown) decision->reason = Reason::kGrayNoVotes;
  return unknown;
}

// Names the operand that would have kept the node if it were larger.
void GrayExplainer::NameSmallOperand(int id, Decision* decision) const {
  for (int k = 0; k < view_.num_inputs(id); ++k) {
    int kept;
    if (small_.count({id, k}) == 0 ||
        VoteOn(view_, leader_, groups_, {}, context_.NewDtype(), id, k, &kept) != Vote::kKept) {
      continue;
    }
    decision->cause = kept;
    decision->reason = Reason::kSmallOperand;
    return;
  }
}

// Names another node of the class: the first whose own reason agrees with the decision of the
// class.
void GrayExplainer::ByItsClass(int id, Decision* decision) const {
  decision->reason = Reason::kSharesDtype;
  for (int g = 0; g < view_.num_groups(id); ++g) {
    const int leader = leader_[view_.first_group(id) + g];
    const auto decider = decider_of_handle_.find(leader);
    if (decider != decider_of_handle_.end()) {
      if (decider->second == id) {
        decision->reason = classes_.nodes[id].fixed;
      } else {
        decision->cause = decider->second;
      }
      return;
    }
    for (const InputPort& consumer : view_.fanout(id)) {
      if (!IsMerge(view_.node(consumer.node).op())) continue;
      const int group = view_.GroupOf(consumer);
      if (group != kNoGroup && leader_[group] == leader) {
        decision->cause = consumer.node;
        return;
      }
    }
    for (const OutputPort& producer : view_.fanin(id)) {
      if (!FeedsLoopMerge(view_.node(producer.node).op())) continue;
      decision->cause = producer.node;
      return;
    }
  }
}

// Finds, for each handle, the first op that decided all ops on it: by its list, by the vote of a
// predecessor, or because it cannot change.
void GrayExplainer::FindDecidersOfHandles(const Decisions& before) {
  for (const Handle& handle : classes_.handles) {
    for (int group : handle.groups) {
      const int id = view_.node_of_group(group);
      if (!Decides(id, group, before.nodes[id].reason)) continue;
      decider_of_handle_.emplace(leader_[group], id);
      break;
    }
  }
}

bool GrayExplainer::Decides(int id, int group, Reason own) const {
  const Vote vote = groups_[leader_[group]].vote;
  if (vote == Vote::kKept && !classes_.can_change[group]) return true;
  if (own == Reason::kCustomized) {
    const DataType wanted =
        WantedOfGroup(view_, id, group - view_.first_group(id), *classes_.nodes[id].custom);
    return AsksForChange(context_, wanted) == (vote == Vote::kLowered);
  }
  if (own != Reason::kNone) return LowersByItself(own) == (vote == Vote::kLowered);
  for (int k = 0; k < view_.num_inputs(id); ++k) {
    int voter;
    if (view_.inputs(id)[k].group != kFixedDtype && context_.Changes(view_.inputs(id)[k].dtype) &&
        VoteOn(view_, leader_, groups_, small_, context_.NewDtype(), id, k, &voter) == vote) {
      return true;
    }
  }
  return false;
}

}  // namespace npu_precision
