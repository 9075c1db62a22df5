#include "graph_passes/decide/reasons.h"

namespace npu_precision {
namespace {

const ReasonRow& RowOf(Reason reason) {
  for (const ReasonRow& row : Reasons()) {
    if (row.reason == reason) return row;
  }
  return Reasons().front();
}

}  // namespace

const std::vector<ReasonRow>& Reasons() {
  static const auto* rows = new std::vector<ReasonRow>{
      {Reason::kNone, "none", ReasonKind::kNone, false, "no reason was recorded"},
      {Reason::kWhiteList, "white_list", ReasonKind::kList, true, "on the white list ({by})"},
      {Reason::kBlackList, "black_list", ReasonKind::kList, false, "on the black list ({by})"},
      {Reason::kUnlisted, "unlisted", ReasonKind::kList, false,
       "its op type is on no list of the target"},
      {Reason::kGrayFollowsLowered, "gray_follows_lowered", ReasonKind::kVotes, false,
       "gray; {cause} feeds it and was lowered, and no input that votes was kept"},
      {Reason::kGrayFollowsKept, "gray_follows_kept", ReasonKind::kVotes, false,
       "gray; {cause} feeds it and was kept"},
      {Reason::kSmallOperand, "small_operand", ReasonKind::kVotes, false,
       "gray; what feeds it was lowered, but for {cause}, which is small beside that and is cast"},
      {Reason::kGrayFollowsConsumers, "gray_follows_consumers", ReasonKind::kVotes, true,
       "gray; it only moves values, nothing that feeds it votes, and what reads it, such as "
       "{cause}, is lowered"},
      {Reason::kGrayNoVotes, "gray_no_votes", ReasonKind::kVotes, false,
       "gray; nothing that feeds it votes"},
      {Reason::kNeutralSource, "neutral_source", ReasonKind::kSource, false,
       "a source, which keeps its dtype; a Cast follows it where one is needed"},
      {Reason::kKeptByCaller, "kept_by_caller", ReasonKind::kNode, false,
       "an argument of a loop or a branch, whose value is kept in float32 outside"},
      {Reason::kNeverChanged, "never_changed", ReasonKind::kNode, false,
       "its op is never changed: it has state, or is where values enter or leave"},
      {Reason::kUpdatesVariable, "updates_variable", ReasonKind::kUse, false,
       "gray; it makes the next value of a variable, which is done in float32"},
      {Reason::kSumsIterations, "sums_iterations", ReasonKind::kKeepRule, false,
       "it accumulates over the iterations of a loop, which is done in float32"},
      {Reason::kSumsCalls, "sums_calls", ReasonKind::kKeepRule, false,
       "it accumulates from call to call of a function whose result is its next argument, which is "
       "done in float32"},
      {Reason::kUpdatesValue, "updates_value", ReasonKind::kKeepRule, false,
       "it is a small step of {cause}, a factor of a product, which is done in float32"},
      {Reason::kGuardConstant, "guard_constant", ReasonKind::kKeepRule, false,
       "it reads the constant {cause}, of which the low type would make 0, 1, infinity or a "
       "subnormal number"},
      {Reason::kCountingConstant, "counting_constant", ReasonKind::kKeepRule, false,
       "it computes with {cause}, a constant that counts in steps that are small for the low type"},
      {Reason::kLargeOffset, "large_offset", ReasonKind::kKeepRule, false,
       "it reads a sum with the constant {cause}, beside which the low type has large steps"},
      {Reason::kAddsWindows, "adds_windows", ReasonKind::kKeepRule, false,
       "its kernel adds up many places or windows in the low type"},
      {Reason::kSlowKernel, "slow_kernel", ReasonKind::kKeepRule, false,
       "its kernel is slower in the low type here, by more than Casts take"},
      {Reason::kCarriesValue, "carries_value", ReasonKind::kKeepRule, false,
       "it moves {cause}, which no product made, to where it leaves the graph"},
      {Reason::kLeavesRange, "leaves_range", ReasonKind::kKeepRule, false,
       "its values, or those of an input, are known to be too large for the low type"},
      {Reason::kBeforeMagnifier, "before_magnifier", ReasonKind::kKeepRule, false,
       "it feeds {cause}, which magnifies its rounding error"},
      {Reason::kMagnifies, "magnifies", ReasonKind::kKeepRule, false,
       "it magnifies the rounding errors of its inputs"},
      {Reason::kKeptInPlace, "kept_in_place", ReasonKind::kKeepRule, false,
       "a rule keeps it because of a node in another function: in the body of a loop or branch, or "
       "around it"},
      {Reason::kFollowsForward, "follows_forward", ReasonKind::kKeepRule, false,
       "it is the gradient of {cause}, which was kept by its name or scope"},
      {Reason::kCastsCostMore, "casts_cost_more", ReasonKind::kUse, false,
       "to lower it would take more time, in Casts or in the nodes around it, than it saves"},
      {Reason::kHandleLeavesGraph, "handle_leaves_graph", ReasonKind::kNode, false,
       "gray; its elements are behind a handle that is used elsewhere too, where dtypes stay"},
      {Reason::kKeepDtypeScope, "keep_dtype_scope", ReasonKind::kNode, false,
       "built in keep_dtype_scope(), as loss scaling builds its ops, or named to "
       "keep_tensors_dtypes"},
      {Reason::kAutocastDisabled, "autocast_disabled", ReasonKind::kNode, false,
       "built in autocast(enabled=False)"},
      {Reason::kOutsideAutocast, "outside_autocast", ReasonKind::kNode, false,
       "no scope of autocast() marked it, and only what one marked is lowered"},
      {Reason::kUnknownNeighbour, "unknown_neighbour", ReasonKind::kNode, false,
       "next to an op that this TensorFlow does not know"},
      {Reason::kFed, "fed", ReasonKind::kSource, false, "its output is fed"},
      {Reason::kPreservedOutputs, "preserved_outputs", ReasonKind::kNode, false,
       "fetched, and with several outputs, so that no Cast can take its name"},
      {Reason::kFixedDtype, "fixed_dtype", ReasonKind::kSupport, false,
       "float32 is the only dtype that its op has here"},
      {Reason::kNoKernel, "no_kernel", ReasonKind::kSupport, false,
       "TensorFlow has no working kernel of it for the new dtype on its device"},
      {Reason::kTargetUnsupported, "target_unsupported", ReasonKind::kSupport, false,
       "the target does not allow the new dtype"},
      {Reason::kSharesDtype, "shares_dtype", ReasonKind::kVotes, false,
       "must have the dtype of {cause}"},
      {Reason::kForced, "forced", ReasonKind::kMode, true,
       "the mode changes whatever can be changed"},
      {Reason::kTargetLacksFloat32, "target_lacks_float32", ReasonKind::kMode, true,
       "the target does not allow float32"},
      {Reason::kMatrixOrConvolution, "matrix_or_convolution", ReasonKind::kMode, true,
       "the mode lowers all matrix and convolution ops of the target"},
      {Reason::kTargetHasFloat32, "target_has_float32", ReasonKind::kMode, false,
       "the target allows float32, and this mode changes only what it must"},
      {Reason::kOriginKept, "origin_kept", ReasonKind::kMode, false, "the mode changes nothing"},
      {Reason::kInputsRounded, "inputs_rounded", ReasonKind::kMode, false,
       "the mode rounds its inputs; it computes in float32"},
      {Reason::kCustomized, "customized", ReasonKind::kLine, false,
       "customize_dtypes gives its dtypes ({by})"},
      {Reason::kNotMatrixOrConvolution, "not_matrix_or_convolution", ReasonKind::kMode, false,
       "the mode is about matrix and convolution ops only"},
  };
  return *rows;
}

std::string ReasonKindName(ReasonKind kind) {
  switch (kind) {
    case ReasonKind::kNone:
      return "none";
    case ReasonKind::kList:
      return "list";
    case ReasonKind::kLine:
      return "line";
    case ReasonKind::kMode:
      return "mode";
    case ReasonKind::kVotes:
      return "votes";
    case ReasonKind::kKeepRule:
      return "keep_rule";
    case ReasonKind::kUse:
      return "use";
    case ReasonKind::kSource:
      return "source";
    case ReasonKind::kNode:
      return "node";
    case ReasonKind::kSupport:
      return "support";
  }
  return "none";
}

const char* ReasonName(Reason reason) { return RowOf(reason).word; }

Reason ReasonFromName(const std::string& name) {
  for (const ReasonRow& row : Reasons()) {
    if (name == row.word) return row.reason;
  }
  return Reason::kNone;
}

ReasonKind KindOf(Reason reason) { return RowOf(reason).kind; }

bool LowersByItself(Reason reason) { return RowOf(reason).lowers; }

}  // namespace npu_precision
