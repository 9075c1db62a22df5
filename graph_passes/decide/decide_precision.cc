#include "graph_passes/decide/decide_precision.h"

#include <vector>

#include "graph_passes/analysis/value_ranges.h"
#include "graph_passes/decide/all_white.h"
#include "graph_passes/decide/apply_custom_dtypes.h"
#include "graph_passes/decide/apply_mode.h"
#include "graph_passes/decide/classify_nodes.h"
#include "graph_passes/decide/costly_islands.h"
#include "graph_passes/decide/cube_inputs.h"
#include "graph_passes/decide/earlier_runs.h"
#include "graph_passes/decide/explain_gray.h"
#include "graph_passes/decide/follow_consumers.h"
#include "graph_passes/decide/keep_rules.h"
#include "graph_passes/decide/missing_kernels.h"
#include "graph_passes/decide/resolve_gray.h"
#include "graph_passes/decide/shared_dtypes.h"
#include "graph_passes/decide/variable_updates.h"
#include "tensorflow/core/lib/core/errors.h"

namespace npu_precision {
namespace {

using tensorflow::Status;

class Decider {
 public:
  Decider(const GraphView& view, const ConstantValues& values, const DecideContext& context,
          Decisions* decisions)
      : view_(view), values_(values), context_(context), decisions_(*decisions) {}

  Status Run() {
    const ModeRule rule = context_.mode.rule;
    KeepAllDtypes();
    TF_RETURN_IF_ERROR(ClassifyNodes(view_, context_, &classes_));
    if (rule == ModeRule::kKeepOrigin) {
      TF_RETURN_IF_ERROR(CheckOriginSupported(view_, context_, classes_));
    }
    groups_ = ApplyMode(view_, context_, classes_, &decisions_);
    decisions_.ranges = ValueRanges(view_, values_, context_.fed, context_.elements);

    if (rule == ModeRule::kMix) {
      KeepGray(VariableUpdates(view_, context_.preserved, groups_), Reason::kUpdatesVariable);
    }
    if (Lowers(rule)) {
      ApplyKeepRules(view_, context_, classes_, values_, &groups_, &decisions_);
    }
    if (rule == ModeRule::kMix && context_.lists->all_white()) {
      DecideAllWhite(view_, context_, &classes_, &groups_, &decisions_);
    }

    leader_ = ClassLeaders(view_, classes_.can_change, classes_.handles);
    AgreeInClasses(leader_, &groups_);
    ResolveGray(view_, leader_, context_.NewDtype(), &groups_);
    if (rule == ModeRule::kMix && context_.follow_consumers) LowerGrayThatFollowsConsumers();
    if (rule == ModeRule::kMix && context_.keep_costly_islands) KeepCostlyIslands();

    const GrayExplainer explain(view_, context_, classes_, leader_, groups_, decisions_);
    for (int id = 0; id < view_.size(); ++id) Conclude(id, explain);
    if (rule == ModeRule::kCube) DecideCubeInputs(view_, context_.mode.low_type, &decisions_);
    RoundCustomPorts(view_, classes_, &decisions_);
    if (Lowers(rule)) WarnOfMissingKernels(view_, classes_, &decisions_);
    return Status();
  }

 private:
  void KeepAllDtypes() {
    decisions_ = Decisions();
    decisions_.nodes.resize(view_.size());
    for (int id = 0; id < view_.size(); ++id) {
      for (const TypeGroup& group : view_.groups(id)) {
        decisions_.group_dtypes.push_back(group.dtype);
      }
    }
  }

  // Keeps those of `groups` that are gray and could follow their predecessors.
  void KeepGray(const std::vector<int>& groups, Reason reason) {
    for (int group : groups) {
      if (groups_[group].kind != GroupState::kFollows) continue;
      groups_[group] = GroupState::Decided(Vote::kKept);
      decisions_.nodes[view_.node_of_group(group)].reason = reason;
    }
  }

  void LowerGrayThatFollowsConsumers() {
    for (const FollowsConsumer& follows :
         FollowConsumers(view_, context_, classes_.handles, leader_, groups_)) {
      groups_[follows.group].vote = Vote::kLowered;
      Decision& decision = decisions_.nodes[view_.node_of_group(follows.group)];
      decision.reason = Reason::kGrayFollowsConsumers;
      decision.cause = follows.consumer;
    }
  }

  void KeepCostlyIslands() {
    for (int group : CostlyIslands(view_, context_, classes_, leader_, groups_)) {
      groups_[group].vote = Vote::kKept;
      Decision& decision = decisions_.nodes[view_.node_of_group(group)];
      decision.reason = Reason::kCastsCostMore;
      decision.cause = -1;
    }
  }

  // Sets the dtypes of a node by the votes of its groups, and explains them.
  void Conclude(int id, const GrayExplainer& explain) {
    const NodeClass& node = classes_.nodes[id];
    Decision& decision = decisions_.nodes[id];
    bool changes = false;
    for (int g = 0; g < view_.num_groups(id); ++g) {
      const int group = view_.first_group(id) + g;
      if (!classes_.can_change[group] || groups_[group].vote != Vote::kLowered) continue;
      decisions_.group_dtypes[group] = context_.NewDtype();
      changes = true;
    }
    if (!changes && RecallEarlierRun(view_, context_, id, &decision)) return;
    if (changes) {
      const bool raises = context_.mode.rule == ModeRule::kForceFloat32;
      decision.verdict = raises ? Verdict::kRaised : Verdict::kLowered;
    }
    if (!node.is_float || node.is_neutral) return;
    if (changes && IsOfKeepRule(decision.reason)) {
      // A rule that kept one of several groups is no reason why others were lowered.
      const bool is_white = node.listing.color == ListColor::kWhite;
      decision.reason = is_white ? Reason::kWhiteList : Reason::kNone;
      decision.cause = -1;
    }
    if (decision.reason == Reason::kCustomized && changes == LineAsksForChange(id)) return;
    if (decision.reason == Reason::kMagnifies) {
      explain.ExplainMagnifier(id, decisions_, &decision);
    } else if (decision.reason == Reason::kNone || LowersByItself(decision.reason) != changes) {
      explain.Explain(id, changes, &decision);
    }
  }

  bool LineAsksForChange(int id) const {
    bool asks = false;
    for (int g = 0; g < view_.num_groups(id); ++g) {
      asks |= classes_.can_change[view_.first_group(id) + g] &&
              AsksForChange(context_, WantedOfGroup(view_, id, g, *classes_.nodes[id].custom));
    }
    return asks;
  }

  const GraphView& view_;
  const ConstantValues& values_;
  const DecideContext& context_;
  Decisions& decisions_;
  NodeClasses classes_;
  std::vector<int> leader_;
  std::vector<GroupState> groups_;
};

}  // namespace

Status DecidePrecision(const GraphView& view, const ConstantValues& values,
                       const DecideContext& context, Decisions* decisions) {
  return Decider(view, values, context, decisions).Run();
}

}  // namespace npu_precision
