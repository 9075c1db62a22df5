#include "graph_passes/decide/decide_precision.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "graph_passes/decide/classify_nodes.h"
#include "graph_passes/decide/explain_gray.h"
#include "graph_passes/decide/follow_consumers.h"
#include "graph_passes/decide/loop_accumulators.h"
#include "graph_passes/decide/loss_region.h"
#include "graph_passes/decide/resolve_gray.h"
#include "graph_passes/decide/variable_updates.h"
#include "graph_passes/graph/dtype_names.h"
#include "graph_passes/graph/fused_ops.h"
#include "graph_passes/graph/marks.h"
#include "graph_passes/graph/op_traits.h"
#include "tensorflow/core/lib/core/errors.h"

namespace npu_precision {
namespace {

using tensorflow::Status;

constexpr size_t kMostNodesNamed = 10;

// What the mode wants of a node that has groups that can change.
struct Wish {
  GroupState::Kind kind;
  Vote vote;
  Reason reason;
};

Wish WishByList(ListColor color) {
  switch (color) {
    case ListColor::kWhite:
      return {GroupState::kDecided, Vote::kLowered, Reason::kWhiteList};
    case ListColor::kBlack:
      return {GroupState::kDecided, Vote::kKept, Reason::kBlackList};
    case ListColor::kGray:
      return {GroupState::kFollows, Vote::kUnknown, Reason::kNone};
    case ListColor::kUnlisted:
      break;
  }
  return {GroupState::kDecided, Vote::kKept, Reason::kUnlisted};
}

class Decider {
 public:
  Decider(const GraphView& view, const DecideContext& context, Decisions* decisions)
      : view_(view), context_(context), decisions_(*decisions) {}

  Status Run() {
    decisions_ = Decisions();
    decisions_.nodes.resize(view_.size());
    for (int id = 0; id < view_.size(); ++id) {
      for (const TypeGroup& group : view_.groups(id)) {
        decisions_.group_dtypes.push_back(group.dtype);
      }
    }
    TF_RETURN_IF_ERROR(ClassifyNodes(view_, context_, &classes_));
    if (context_.mode.rule == ModeRule::kKeepOrigin) TF_RETURN_IF_ERROR(CheckOriginSupported());
    leader_ = ClassLeaders(view_, classes_.can_change, classes_.handles);
    groups_.resize(view_.num_groups());
    for (int id = 0; id < view_.size(); ++id) WishFor(id);
    if (context_.mode.rule == ModeRule::kMix) {
      KeepSums();
      Keep(VariableUpdates(view_, context_.preserved, groups_), Reason::kUpdatesVariable);
    }
    if (context_.mode.rule == ModeRule::kMix && context_.lists->all_white()) {
      GoByTheLists(LossRegion(view_, WhiteByDefault()));
      LowerByDefault();
    }
    AgreeInClasses();
    ResolveGray(view_, leader_, context_.NewDtype(), &groups_);
    if (context_.mode.rule == ModeRule::kMix && context_.follow_consumers) Follow();
    const GrayExplainer explain(view_, context_, classes_, leader_, groups_, decisions_);
    for (int id = 0; id < view_.size(); ++id) Conclude(id, explain);
    if (context_.mode.rule == ModeRule::kCube) RoundInputs();
    return Status();
  }

 private:
  Wish WishByMode(int id, int group) const {
    const NodeClass& node = classes_.nodes[id];
    const ListColor color = node.listing.color;
    const Wish keep_unlisted = {GroupState::kDecided, Vote::kKept, Reason::kUnlisted};
    switch (context_.mode.rule) {
      case ModeRule::kMix:
        // A gray op whose float32 the target lacks has one way to run, whatever comes before it.
        if (color == ListColor::kGray &&
            !TargetAllows(view_, node.info, id, group, tensorflow::DT_FLOAT)) {
          return {GroupState::kDecided, Vote::kLowered, Reason::kTargetLacksFloat32};
        }
        return WishByList(color);
      case ModeRule::kForceLow:
      case ModeRule::kForceFloat32:
        if (color == ListColor::kUnlisted) return keep_unlisted;
        return {GroupState::kDecided, Vote::kLowered, Reason::kForced};
      case ModeRule::kLowerUnsupported:
        if (color == ListColor::kUnlisted) return keep_unlisted;
        if (TargetAllows(view_, node.info, id, group, tensorflow::DT_FLOAT)) {
          return {GroupState::kDecided, Vote::kKept, Reason::kTargetHasFloat32};
        }
        return {GroupState::kDecided, Vote::kLowered, Reason::kTargetLacksFloat32};
      case ModeRule::kKeepOrigin:
        return {GroupState::kDecided, Vote::kKept, Reason::kOriginKept};
      case ModeRule::kCube:
        return {GroupState::kDecided, Vote::kKept, Reason::kNotMatrixOrConvolution};
    }
    return keep_unlisted;
  }

  // Sets the first state of the node's groups and, where that settles it, the reason.
  void WishFor(int id) {
    const NodeClass& node = classes_.nodes[id];
    if (!node.is_float) return;
    Decision& decision = decisions_.nodes[id];
    decision.listing = node.listing;
    decision.verdict = Verdict::kKept;
    if (node.is_neutral) {
      decision.reason = node.fixed;
      return;
    }
    for (int g = 0; g < view_.groups(id).size(); ++g) {
      if (context_.Changes(view_.groups(id)[g].dtype)) WishForGroup(id, g);
    }
    if (decision.reason == Reason::kNone && node.fixed == Reason::kFixedDtype) {
      decision.reason = node.fixed;
    }
  }

  void WishForGroup(int id, int g) {
    const NodeClass& node = classes_.nodes[id];
    Decision& decision = decisions_.nodes[id];
    GroupState& state = groups_[view_.first_group(id) + g];
    const bool can_change = classes_.can_change[view_.first_group(id) + g];
    const bool fixed_for_good =
        node.fixed == Reason::kNeverChanged || node.fixed == Reason::kKeepDtypeScope ||
        node.fixed == Reason::kUnknownNeighbour || node.fixed == Reason::kPreservedOutputs ||
        node.fixed == Reason::kHandleLeavesGraph;
    if (fixed_for_good) {
      state = {GroupState::kDecided, Vote::kKept};
      decision.reason = node.fixed;
      return;
    }
    const Wish wish = WishByMode(id, g);
    state = {wish.kind, wish.vote};
    if (node.listing.white_by_default && context_.mode.rule == ModeRule::kMix) {
      // As gray first, so that what updates a variable is found.
      const auto kind = can_change ? GroupState::kFollows : GroupState::kFollowsOrKeeps;
      state = {kind, Vote::kUnknown};
    } else if (can_change) {
      decision.reason = wish.reason;
    } else if (wish.kind == GroupState::kFollows) {
      state.kind = GroupState::kFollowsOrKeeps;
    } else if (wish.vote == Vote::kLowered) {
      state.vote = node.fixed == Reason::kNeutralSource ? Vote::kUnknown : Vote::kKept;
      if (decision.reason == Reason::kNone) decision.reason = node.fixed;
    } else if (decision.reason == Reason::kNone) {
      decision.reason = wish.reason;
    }
  }

  // Gray that the lists alone do not settle.
  void Keep(const std::vector<int>& groups, Reason reason) {
    for (int group : groups) {
      if (groups_[group].kind != GroupState::kFollows) continue;
      groups_[group] = {GroupState::kDecided, Vote::kKept};
      decisions_.nodes[view_.node_of_group(group)].reason = reason;
    }
  }

  // What is gray around a sum follows it.
  void KeepSums() {
    for (const LoopAccumulator& sum : LoopAccumulators(view_, groups_)) {
      Keep({sum.variable}, Reason::kSumsIterations);
      for (int group : sum.groups) {
        const NodeClass& node = classes_.nodes[view_.node_of_group(group)];
        if (node.listing.white_by_default) Keep({group}, Reason::kSumsIterations);
      }
    }
  }

  // The groups that only all_white lowers, or has lowered in an earlier run.
  std::vector<bool> WhiteByDefault() const {
    std::vector<bool> found(view_.num_groups(), false);
    for (int group = 0; group < view_.num_groups(); ++group) {
      const int id = view_.node_of_group(group);
      const TypeGroup& type = view_.groups(id)[group - view_.first_group(id)];
      if (groups_[group].kind != GroupState::kDecided) {
        found[group] = true;
      } else if (type.dtype == context_.NewDtype() && view_.op_def(id) != nullptr) {
        const tensorflow::NodeDef& node = view_.node(id);
        const DeviceKind kind = context_.support->KindOf(node);
        found[group] = context_.lists->OfOp(OpsOf(node).front(), kind).white_by_default;
      }
    }
    return found;
  }

  // What all_white put on the white list, in these groups.
  void GoByTheLists(const std::vector<bool>& groups) {
    for (int group = 0; group < view_.num_groups(); ++group) {
      const int id = view_.node_of_group(group);
      NodeClass& node = classes_.nodes[id];
      if (!groups[group] || !node.listing.white_by_default) continue;
      node.listing = context_.lists->OfOpInLists(OpsOf(view_.node(id)).front(),
                                                 context_.support->KindOf(view_.node(id)));
      decisions_.nodes[id].listing = node.listing;
    }
    for (int group = 0; group < view_.num_groups(); ++group) {
      const int id = view_.node_of_group(group);
      const bool is_black = classes_.nodes[id].listing.color == ListColor::kBlack;
      if (!groups[group] || !is_black || groups_[group].kind == GroupState::kDecided) continue;
      groups_[group] = {GroupState::kDecided, Vote::kKept};
      decisions_.nodes[id].reason = Reason::kBlackList;
    }
  }

  void LowerByDefault() {
    for (int group = 0; group < view_.num_groups(); ++group) {
      const int id = view_.node_of_group(group);
      const NodeClass& node = classes_.nodes[id];
      GroupState& state = groups_[group];
      if (!node.listing.white_by_default || state.kind == GroupState::kDecided) continue;
      Reason& reason = decisions_.nodes[id].reason;
      if (state.kind == GroupState::kFollows) {
        state = {GroupState::kDecided, Vote::kLowered};
        reason = Reason::kWhiteList;
      } else {
        const bool is_neutral = node.fixed == Reason::kNeutralSource;
        state = {GroupState::kDecided, is_neutral ? Vote::kUnknown : Vote::kKept};
        if (reason == Reason::kNone) reason = node.fixed;
      }
    }
  }

  void Follow() {
    for (const FollowsConsumer& follows :
         FollowConsumers(view_, context_, classes_.handles, leader_, groups_)) {
      groups_[follows.group].vote = Vote::kLowered;
      Decision& decision = decisions_.nodes[view_.node_of_group(follows.group)];
      decision.reason = Reason::kGrayFollowsConsumers;
      decision.cause = follows.consumer;
    }
  }

  // Groups that must share a dtype get one state: kept if one is kept for good, else lowered if
  // one is, else gray.
  void AgreeInClasses() {
    for (int id = 0; id < view_.size(); ++id) {
      for (int g = 0; g < view_.groups(id).size(); ++g) {
        const int group = view_.first_group(id) + g;
        if (leader_[group] != group) Join(groups_[group], &groups_[leader_[group]]);
      }
    }
    for (int g = 0; g < view_.num_groups(); ++g) groups_[g] = groups_[leader_[g]];
  }

  static void Join(const GroupState& other, GroupState* leader) {
    const auto rank = [](const GroupState& state) {
      if (state.kind == GroupState::kDecided && state.vote == Vote::kKept) return 3;
      if (state.kind == GroupState::kFollowsOrKeeps) return 2;
      if (state.kind == GroupState::kDecided && state.vote == Vote::kLowered) return 1;
      return 0;
    };
    // White next to a member that cannot change cannot be lowered.
    if (rank(other) + rank(*leader) == 3 && rank(other) != 3 && rank(*leader) != 3) {
      *leader = {GroupState::kDecided, Vote::kKept};
    } else if (rank(other) > rank(*leader)) {
      *leader = other;
    }
  }

  void Conclude(int id, const GrayExplainer& explain) {
    const NodeClass& node = classes_.nodes[id];
    Decision& decision = decisions_.nodes[id];
    DecisionMark mark;
    if (decision.verdict != Verdict::kKept) {
      if (ReadDecisionMark(view_.node(id), &mark) && StillHolds(mark, id)) Recall(mark, id);
      return;
    }
    bool changes = false;
    for (int g = 0; g < view_.groups(id).size(); ++g) {
      const int group = view_.first_group(id) + g;
      if (!classes_.can_change[group] || groups_[group].vote != Vote::kLowered) continue;
      decisions_.group_dtypes[group] = context_.NewDtype();
      changes = true;
    }
    if (!changes && ReadDecisionMark(view_.node(id), &mark) && StillHolds(mark, id)) {
      Recall(mark, id);
      return;
    }
    if (changes) {
      decision.verdict =
          context_.mode.rule == ModeRule::kForceFloat32 ? Verdict::kRaised : Verdict::kLowered;
    }
    if (node.is_neutral) return;
    if (decision.reason == Reason::kNone || LowersByItself(decision.reason) != changes) {
      explain.Explain(id, changes, &decision);
    }
  }

  // Whether what an earlier run decided is what this mode left, not what another one undid.
  bool StillHolds(const DecisionMark& mark, int id) const {
    if (mark.reason == ReasonName(Reason::kInputsRounded)) {
      return context_.mode.rule == ModeRule::kCube;
    }
    const bool raised = mark.decision == VerdictName(Verdict::kRaised);
    if (raised != (context_.mode.rule == ModeRule::kForceFloat32)) return false;
    for (const TypeGroup& group : view_.groups(id)) {
      if (group.dtype == context_.NewDtype()) return true;
    }
    return false;
  }

  // What an earlier run decided about a node stands.
  void Recall(const DecisionMark& mark, int id) {
    Decision& decision = decisions_.nodes[id];
    decision.verdict = mark.decision == VerdictName(Verdict::kRaised)    ? Verdict::kRaised
                       : mark.decision == VerdictName(Verdict::kLowered) ? Verdict::kLowered
                                                                         : Verdict::kKept;
    decision.reason = ReasonFromName(mark.reason);
    decision.cause = view_.IndexOf(mark.cause);
    decision.listing = context_.lists->OfOp(OpsOf(view_.node(id)).front(),
                                            context_.support->KindOf(view_.node(id)));
    for (ListColor color : {ListColor::kWhite, ListColor::kBlack, ListColor::kGray}) {
      if (mark.list == ListColorName(color)) decision.listing.color = color;
    }
  }

  Status CheckOriginSupported() const {
    std::vector<std::string> unsupported;
    size_t count = 0;
    for (int id = 0; id < view_.size(); ++id) {
      if (view_.op_def(id) == nullptr || IsNeutralSource(view_.node(id).op())) continue;
      const OpInfo* info = InfoOf(view_.node(id), context_);
      for (int g = 0; g < view_.groups(id).size(); ++g) {
        const tensorflow::DataType dtype = view_.groups(id)[g].dtype;
        if (TargetAllows(view_, info, id, g, dtype)) continue;
        if (unsupported.size() < kMostNodesNamed) {
          unsupported.push_back(absl::StrCat(view_.node(id).name(), " (", view_.node(id).op(), ", ",
                                             DtypeName(dtype), ")"));
        }
        ++count;
        break;
      }
    }
    if (count == 0) return Status();
    std::string named;
    for (const std::string& node : unsupported) {
      absl::StrAppend(&named, named.empty() ? "" : ", ", node);
    }
    if (count > unsupported.size()) {
      absl::StrAppend(&named, " and ", count - unsupported.size(), " more");
    }
    return tensorflow::errors::InvalidArgument(
        context_.mode.name, ": the target does not support the dtype of ", count,
        count == 1 ? " node: " : " nodes: ", named,
        ". Use a mode that may lower them, such as allow_fp32_to_fp16, or another target");
  }

  void RoundInputs() {
    for (int id = 0; id < view_.size(); ++id) {
      Decision& decision = decisions_.nodes[id];
      if (decision.reason != Reason::kNotMatrixOrConvolution) continue;
      if (!IsMatrixOrConvolution(OpsOf(view_.node(id)).front())) continue;
      // Further inputs of a fused op are the bias and the like, which the cube unit does not see.
      const bool fused = StandsForSeveral(view_.node(id));
      for (int k = 0; k < view_.inputs(id).size() && !(fused && k == 2); ++k) {
        const Port& port = view_.inputs(id)[k];
        if (port.dtype != tensorflow::DT_FLOAT || port.group == kFixedDtype) continue;
        decisions_.rounded_inputs.push_back({id, k});
        decision.reason = Reason::kInputsRounded;
      }
    }
  }

  const GraphView& view_;
  const DecideContext& context_;
  Decisions& decisions_;
  NodeClasses classes_;
  std::vector<int> leader_;
  std::vector<GroupState> groups_;
};

}  // namespace

Status DecidePrecision(const GraphView& view, const DecideContext& context, Decisions* decisions) {
  return Decider(view, context, decisions).Run();
}

}  // namespace npu_precision
