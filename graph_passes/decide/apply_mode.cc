#include "graph_passes/decide/apply_mode.h"

#include "graph_passes/decide/apply_custom_dtypes.h"
#include "graph_passes/decide/reasons.h"
#include "graph_passes/graph/fused_ops.h"
#include "graph_passes/graph/op_traits.h"

namespace npu_precision {
namespace {

using tensorflow::DataType;

// The request of the mode and the lists to a group that can change.
struct Request {
  GroupState state;
  Reason reason;
};

Request Lower(Reason reason) { return {GroupState::Decided(Vote::kLowered), reason}; }
Request Keep(Reason reason) { return {GroupState::Decided(Vote::kKept), reason}; }

Request AskedByList(ListColor color) {
  switch (color) {
    case ListColor::kWhite:
      return Lower(Reason::kWhiteList);
    case ListColor::kBlack:
      return Keep(Reason::kBlackList);
    case ListColor::kGray:
      return {{GroupState::kFollows, Vote::kUnknown}, Reason::kNone};
    case ListColor::kUnlisted:
      break;
  }
  return Keep(Reason::kUnlisted);
}

Request AskedByLine(const DecideContext& context, DataType wanted) {
  return AsksForChange(context, wanted) ? Lower(Reason::kCustomized) : Keep(Reason::kCustomized);
}

Request AskedByMode(const GraphView& view, const DecideContext& context, const NodeClass& node,
                    int id, int group) {
  const bool listed = node.listing.color != ListColor::kUnlisted;
  const auto has_float32 = [&] {
    return TargetAllows(view, node.info, id, group, tensorflow::DT_FLOAT);
  };
  switch (context.mode.rule) {
    case ModeRule::kMix:
      // A gray op whose float32 the target lacks can only run lowered, whatever its predecessors.
      if (node.listing.color == ListColor::kGray && !has_float32()) {
        return Lower(Reason::kTargetLacksFloat32);
      }
      return AskedByList(node.listing.color);
    case ModeRule::kForceLow:
    case ModeRule::kForceFloat32:
      if (listed) return Lower(Reason::kForced);
      break;
    case ModeRule::kLowerUnsupported:
      if (!listed) break;
      if (!has_float32()) return Lower(Reason::kTargetLacksFloat32);
      if (context.lowers_matrix_ops && IsMatrixOrConvolution(OpsOf(view.node(id)).front())) {
        return Lower(Reason::kMatrixOrConvolution);
      }
      return Keep(Reason::kTargetHasFloat32);
    case ModeRule::kKeepOrigin:
      return Keep(Reason::kOriginKept);
    case ModeRule::kCube:
      return Keep(Reason::kNotMatrixOrConvolution);
  }
  return Keep(Reason::kUnlisted);
}

// The state of a group after `request`; `reason` is the reason of its node.
GroupState FirstState(const NodeClass& node, const Request& request, bool can_change,
                      bool gray_at_first, Reason* reason) {
  const GroupState gray = {can_change ? GroupState::kFollows : GroupState::kFollowsOrKeeps,
                           Vote::kUnknown};
  if (gray_at_first) return gray;
  if (can_change) {
    *reason = request.reason;
    return request.state;
  }
  if (request.state.kind == GroupState::kFollows) return gray;
  const bool lowers = request.state.vote == Vote::kLowered;
  if (*reason == Reason::kNone) *reason = lowers ? node.fixed : request.reason;
  if (lowers && node.fixed == Reason::kNeutralSource) return GroupState::Decided(Vote::kUnknown);
  return GroupState::Decided(Vote::kKept);
}

}  // namespace

std::vector<GroupState> ApplyMode(const GraphView& view, const DecideContext& context,
                                  const NodeClasses& classes, Decisions* decisions) {
  std::vector<GroupState> groups(view.num_groups());
  const ModeRule rule = context.mode.rule;
  for (int id = 0; id < view.size(); ++id) {
    const NodeClass& node = classes.nodes[id];
    if (!node.is_float) continue;
    Decision& decision = decisions->nodes[id];
    decision.listing = node.listing;
    decision.verdict = Verdict::kKept;
    if (node.is_neutral) {
      decision.reason = node.fixed;
      continue;
    }
    for (int g = 0; g < view.num_groups(id); ++g) {
      if (!context.Changes(view.groups(id)[g].dtype)) continue;
      const int group = view.first_group(id) + g;
      if (KindOf(node.fixed) == ReasonKind::kNode) {
        groups[group] = GroupState::Decided(Vote::kKept);
        decision.reason = node.fixed;
        continue;
      }
      const bool gray_at_first = node.listing.white_by_default && rule == ModeRule::kMix;
      const DataType wanted = node.custom == nullptr ? tensorflow::DT_INVALID
                                                     : WantedOfGroup(view, id, g, *node.custom);
      const Request request = wanted == tensorflow::DT_INVALID
                                  ? AskedByMode(view, context, node, id, g)
                                  : AskedByLine(context, wanted);
      groups[group] =
          FirstState(node, request, classes.can_change[group], gray_at_first, &decision.reason);
    }
    if (decision.reason == Reason::kNone && node.fixed == Reason::kFixedDtype) {
      decision.reason = node.fixed;
    }
  }
  return groups;
}

}  // namespace npu_precision
