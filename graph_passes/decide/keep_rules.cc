#include "graph_passes/decide/keep_rules.h"

#include "absl/strings/str_cat.h"
#include "graph_passes/analysis/accumulators.h"
#include "graph_passes/decide/before_magnifiers.h"
#include "graph_passes/decide/follows_forward.h"
#include "graph_passes/decide/nodes_by_reason.h"
#include "graph_passes/decide/range_rules.h"

namespace npu_precision {
namespace {

class Rules {
 public:
  Rules(const GraphView& view, const DecideContext& context, const NodeClasses& classes,
        const ConstantValues& values, std::vector<GroupState>* groups, Decisions* decisions)
      : view_(view),
        context_(context),
        classes_(classes),
        values_(values),
        groups_(*groups),
        decisions_(*decisions) {}

  void Run() {
    if (context_.mode.rule == ModeRule::kMix) {
      for (const KeptGroup& kept : Found()) Keep(kept);
    } else {
      Warn();
    }
  }

 private:
  std::vector<KeptGroup> Found() const {
    const std::vector<ValueRange>& ranges = decisions_.ranges;
    const std::vector<bool> ends_path = EndsPath();
    const std::vector<int> accumulators = Accumulators(view_, ranges, context_.fed, ends_path);
    std::vector<KeptGroup> all = FollowsForward(view_, classes_);
    // The first that keeps a node is told, so the one that says most about it comes first.
    for (const auto& more :
         {Accumulating(accumulators), RangeRules(view_, values_, ranges, context_, ends_path),
          BeforeMagnifiers(view_, ranges, accumulators, context_, ends_path)}) {
      all.insert(all.end(), more.begin(), more.end());
    }
    return all;
  }

  // What the mixlist may lower ends the paths of the rules: what it says would be of no use if all
  // around it were kept. And the constants behind it are stored in the low type, so that a second
  // run could not follow the path.
  std::vector<bool> EndsPath() const {
    std::vector<bool> ends(view_.size());
    for (int id = 0; id < view_.size(); ++id) {
      ends[id] = IsEdited(id) && classes_.nodes[id].listing.color != ListColor::kBlack;
    }
    return ends;
  }

  std::vector<KeptGroup> Accumulating(const std::vector<int>& accumulators) const {
    std::vector<KeptGroup> kept;
    for (int id : accumulators) {
      const int group = view_.num_outputs(id) == 0 ? kNoGroup : view_.GroupOf(OutputPort{id, 0});
      if (group != kNoGroup) kept.push_back({group, Reason::kSumsIterations});
    }
    return kept;
  }

  bool IsEdited(int id) const { return classes_.nodes[id].listing.edited != Edited::kNo; }

  void Keep(const KeptGroup& kept) {
    const int id = view_.node_of_group(kept.group);
    if (!MayBeLowered(kept.group) || IsEdited(id) || !HasFloat32(id, kept.group)) return;
    groups_[kept.group] = GroupState::Decided(Vote::kKept);
    decisions_.nodes[id].reason = kept.reason;
    decisions_.nodes[id].cause = kept.cause;
  }

  bool MayBeLowered(int group) const {
    const GroupState& state = groups_[group];
    return classes_.can_change[group] &&
           (state.kind == GroupState::kFollows || state.vote == Vote::kLowered);
  }

  bool HasFloat32(int id, int group) const {
    return TargetAllows(view_, classes_.nodes[id].info, id, group - view_.first_group(id),
                        tensorflow::DT_FLOAT);
  }

  void Warn() {
    NodesByReason nodes;
    for (const KeptGroup& kept : Found()) {
      if (!MayBeLowered(kept.group)) continue;
      nodes.Add(kept.reason, view_.node(view_.node_of_group(kept.group)).name());
    }
    nodes.Warn(absl::StrCat(context_.mode.name, " lowers "), " that a mixed mode keeps in float32",
               &decisions_.warnings);
  }

  const GraphView& view_;
  const DecideContext& context_;
  const NodeClasses& classes_;
  const ConstantValues& values_;
  std::vector<GroupState>& groups_;
  Decisions& decisions_;
};

}  // namespace

bool IsOfKeepRule(Reason reason) {
  return reason == Reason::kFollowsForward || reason == Reason::kSumsIterations ||
         reason == Reason::kBeforeMagnifier || reason == Reason::kMagnifies ||
         reason == Reason::kGuardConstant || reason == Reason::kLeavesRange;
}

void ApplyKeepRules(const GraphView& view, const DecideContext& context, const NodeClasses& classes,
                    const ConstantValues& values, std::vector<GroupState>* groups,
                    Decisions* decisions) {
  Rules(view, context, classes, values, groups, decisions).Run();
}

}  // namespace npu_precision
