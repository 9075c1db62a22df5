#include "graph_passes/decide/decision.h"

namespace npu_precision {
namespace {

struct ReasonWord {
  Reason reason;
  const char* word;
};

constexpr ReasonWord kReasons[] = {
    {Reason::kNone, "none"},
    {Reason::kWhiteList, "white_list"},
    {Reason::kBlackList, "black_list"},
    {Reason::kUnlisted, "unlisted"},
    {Reason::kGrayFollowsLowered, "gray_follows_lowered"},
    {Reason::kGrayFollowsKept, "gray_follows_kept"},
    {Reason::kGrayFollowsConsumers, "gray_follows_consumers"},
    {Reason::kGrayNoVotes, "gray_no_votes"},
    {Reason::kNeutralSource, "neutral_source"},
    {Reason::kNeverChanged, "never_changed"},
    {Reason::kUpdatesVariable, "updates_variable"},
    {Reason::kSumsIterations, "sums_iterations"},
    {Reason::kGuardConstant, "guard_constant"},
    {Reason::kLeavesRange, "leaves_range"},
    {Reason::kBeforeMagnifier, "before_magnifier"},
    {Reason::kMagnifies, "magnifies"},
    {Reason::kFollowsForward, "follows_forward"},
    {Reason::kCastsCostMore, "casts_cost_more"},
    {Reason::kHandleLeavesGraph, "handle_leaves_graph"},
    {Reason::kKeepDtypeScope, "keep_dtype_scope"},
    {Reason::kAutocastDisabled, "autocast_disabled"},
    {Reason::kOutsideAutocast, "outside_autocast"},
    {Reason::kUnknownNeighbour, "unknown_neighbour"},
    {Reason::kFed, "fed"},
    {Reason::kPreservedOutputs, "preserved_outputs"},
    {Reason::kFixedDtype, "fixed_dtype"},
    {Reason::kNoKernel, "no_kernel"},
    {Reason::kTargetUnsupported, "target_unsupported"},
    {Reason::kSharesDtype, "shares_dtype"},
    {Reason::kForced, "forced"},
    {Reason::kTargetLacksFloat32, "target_lacks_float32"},
    {Reason::kMatrixOrConvolution, "matrix_or_convolution"},
    {Reason::kTargetHasFloat32, "target_has_float32"},
    {Reason::kOriginKept, "origin_kept"},
    {Reason::kInputsRounded, "inputs_rounded"},
    {Reason::kCustomized, "customized"},
    {Reason::kNotMatrixOrConvolution, "not_matrix_or_convolution"},
};

}  // namespace

const char* VerdictName(Verdict verdict) {
  switch (verdict) {
    case Verdict::kNotFloat:
      return "not_float";
    case Verdict::kKept:
      return "kept";
    case Verdict::kLowered:
      return "lowered";
    case Verdict::kRaised:
      return "raised";
  }
  return "not_float";
}

Verdict VerdictFromName(const std::string& name) {
  for (Verdict verdict : {Verdict::kRaised, Verdict::kLowered}) {
    if (name == VerdictName(verdict)) return verdict;
  }
  return Verdict::kKept;
}

const char* ReasonName(Reason reason) {
  for (const ReasonWord& entry : kReasons) {
    if (entry.reason == reason) return entry.word;
  }
  return "none";
}

std::vector<std::string> ReasonNames() {
  std::vector<std::string> names;
  for (const ReasonWord& entry : kReasons) names.push_back(entry.word);
  return names;
}

Reason ReasonFromName(const std::string& name) {
  for (const ReasonWord& entry : kReasons) {
    if (name == entry.word) return entry.reason;
  }
  return Reason::kNone;
}

bool Decisions::ChangesAnything(const GraphView& view) const {
  if (!rounded_inputs.empty() || !rounded_outputs.empty()) return true;
  for (int group = 0; group < view.num_groups(); ++group) {
    if (group_dtypes[group] != view.group_numbered(group).dtype) return true;
  }
  return false;
}

}  // namespace npu_precision
