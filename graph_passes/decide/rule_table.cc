#include "graph_passes/decide/rule_table.h"

#include "graph_passes/analysis/accumulators.h"
#include "graph_passes/analysis/value_ranges.h"
#include "graph_passes/decide/all_white.h"
#include "graph_passes/decide/apply_custom_dtypes.h"
#include "graph_passes/decide/apply_mode.h"
#include "graph_passes/decide/before_magnifiers.h"
#include "graph_passes/decide/before_solvers.h"
#include "graph_passes/decide/cancelling_products.h"
#include "graph_passes/decide/carried_values.h"
#include "graph_passes/decide/cheapest_dtypes.h"
#include "graph_passes/decide/conclude.h"
#include "graph_passes/decide/costly_islands.h"
#include "graph_passes/decide/cube_inputs.h"
#include "graph_passes/decide/follow_consumers.h"
#include "graph_passes/decide/follows_forward.h"
#include "graph_passes/decide/keep_rules.h"
#include "graph_passes/decide/loop_end_rules.h"
#include "graph_passes/decide/missing_kernels.h"
#include "graph_passes/decide/mixed_by_model.h"
#include "graph_passes/decide/offset_rules.h"
#include "graph_passes/decide/range_rules.h"
#include "graph_passes/decide/resolve_gray.h"
#include "graph_passes/decide/shared_dtypes.h"
#include "graph_passes/decide/slow_kernels.h"
#include "graph_passes/decide/small_operands.h"
#include "graph_passes/decide/value_updates.h"
#include "graph_passes/decide/variable_updates.h"
#include "graph_passes/decide/window_sums.h"
#include "graph_passes/graph/marks.h"

namespace npu_precision {
namespace {

using tensorflow::Status;

bool Always(const DecideState&) { return true; }
bool KeepsOrigin(const DecideState& state) { return state.mode() == ModeRule::kKeepOrigin; }
bool Mixes(const DecideState& state) { return state.mode() == ModeRule::kMix; }
bool Lowers(const DecideState& state) { return Lowers(state.mode()); }
bool LowersByForce(const DecideState& state) { return Lowers(state) && !Mixes(state); }
bool RoundsCubeInputs(const DecideState& state) { return state.mode() == ModeRule::kCube; }

bool MixesAllWhite(const DecideState& state) {
  return Mixes(state) && state.context.lists->all_white();
}

bool FollowsConsumers(const DecideState& state) {
  return Mixes(state) && state.context.lists->follows_consumers();
}

bool WeighsKernels(const DecideState& state) {
  return Mixes(state) && state.context.weighs_kernels;
}

bool WeighsKernelsAndLists(const DecideState& state) {
  return WeighsKernels(state) && !state.context.lists->all_white();
}

bool KeepsCostlyIslands(const DecideState& state) {
  return Mixes(state) && state.context.keep_costly_islands;
}

Status Classify(DecideState* state) {
  return ClassifyNodes(state->view, state->context, &state->classes);
}

Status CheckOrigin(DecideState* state) {
  return CheckOriginSupported(state->view, state->context, state->classes);
}

Status AskModeAndLists(DecideState* state) {
  state->groups = ApplyMode(state->view, state->context, state->classes, &state->decisions);
  return Status();
}

Status FindValueRanges(DecideState* state) {
  state->decisions.ranges = ValueRanges(state->view, state->values, state->context.fed,
                                        state->context.elements, state->context.shapes);
  return Status();
}

Status KeepVariableUpdates(DecideState* state) {
  KeepGray(VariableUpdates(state->view, state->context.preserved, state->groups),
           Reason::kUpdatesVariable, state);
  return Status();
}

Status FindAccumulators(DecideState* state) {
  state->ends_path = EndsPath(state->view, state->classes);
  state->accumulators =
      Accumulators(state->view, state->values, state->decisions.ranges, state->context.fed,
                   state->ends_path, state->context.body_role);
  return Status();
}

Status KeepGradientsOfKept(DecideState* state) {
  Keep(FollowsForward(state->view, state->classes), state);
  return Status();
}

Status KeepAccumulators(DecideState* state) {
  Keep(Accumulating(state->view, state->accumulators), state);
  return Status();
}

Status KeepLoopEnds(DecideState* state) {
  Keep(LoopEndRules(state->view, state->context, state->ends_path), state);
  return Status();
}

Status KeepValueUpdates(DecideState* state) {
  Keep(ValueUpdates(state->view, state->values, state->context, state->ends_path), state);
  return Status();
}

Status KeepWindowSums(DecideState* state) {
  Keep(WindowSums(state->view, state->context), state);
  return Status();
}

Status KeepSlowKernels(DecideState* state) {
  Keep(SlowKernels(state->view, state->context), state);
  return Status();
}

Status KeepCarriedValues(DecideState* state) {
  Keep(CarriedValues(state->view, state->context, state->ends_path), state);
  return Status();
}

Status KeepWhatLeavesRange(DecideState* state) {
  Keep(RangeRules(state->view, state->values, state->decisions.ranges, state->context,
                  state->ends_path),
       state);
  return Status();
}

Status KeepLargeOffsets(DecideState* state) {
  Keep(OffsetRules(state->view, state->values, state->context, state->ends_path), state);
  return Status();
}

Status KeepCancellingProducts(DecideState* state) {
  Keep(CancellingProducts(state->view, state->values, state->context, state->ends_path), state);
  return Status();
}

Status KeepBeforeSolvers(DecideState* state) {
  Keep(BeforeSolvers(state->view, state->values, state->context, state->ends_path), state);
  return Status();
}

Status KeepBeforeMagnifiers(DecideState* state) {
  Keep(BeforeMagnifiers(state->view, state->decisions.ranges, state->accumulators, state->context,
                        state->ends_path),
       state);
  return Status();
}

Status KeepMarkedInPlace(DecideState* state) {
  std::vector<KeptGroup> kept;
  for (int id = 0; id < state->view.size(); ++id) {
    if (!HasKeptInPlaceMark(state->view.node(id))) continue;
    for (int g = 0; g < state->view.num_groups(id); ++g) {
      kept.push_back({state->view.first_group(id) + g, Reason::kKeptInPlace});
    }
  }
  Keep(kept, state);
  return Status();
}

Status WarnOfLoweredAnyway(DecideState* state) {
  WarnOfKeepRules(state);
  return Status();
}

Status LowerAllWhite(DecideState* state) {
  DecideAllWhite(state->view, state->context, &state->classes, &state->groups, &state->decisions);
  return Status();
}

Status ShareDtypes(DecideState* state) {
  state->leader = ClassLeaders(state->view, state->classes.can_change, state->classes.handles);
  AgreeInClasses(state->leader, &state->groups);
  return Status();
}

Status SilenceSmallOperands(DecideState* state) {
  state->small_operands = FindSmallOperands(state->view, state->values, state->context,
                                            state->classes, state->decisions);
  return Status();
}

Status ResolveGrayByVotes(DecideState* state) {
  ResolveGray(state->view, state->leader, state->small_operands, state->context.NewDtype(),
              &state->groups);
  return Status();
}

Status LowerWhatFollowsConsumers(DecideState* state) {
  for (const FollowsConsumer& follows : FollowConsumers(
           state->view, state->context, state->classes.handles, state->leader, state->groups)) {
    state->groups[follows.group].vote = Vote::kLowered;
    Decision& decision = state->decisions.nodes[state->view.node_of_group(follows.group)];
    decision.reason = Reason::kGrayFollowsConsumers;
    decision.cause = follows.consumer;
  }
  return Status();
}

// Takes back that gray follows its predecessors.
void KeepAfterVotes(const std::vector<KeptGroup>& keeps, DecideState* state) {
  for (const KeptGroup& keep : keeps) {
    state->groups[keep.group].vote = Vote::kKept;
    Decision& decision = state->decisions.nodes[state->view.node_of_group(keep.group)];
    decision.reason = keep.reason;
    decision.cause = keep.cause;
  }
}

Status KeepCheapestDtypes(DecideState* state) {
  KeepAfterVotes(
      CheapestDtypes(state->view, state->context, state->classes, state->leader, state->groups),
      state);
  return Status();
}

Status KeepCostlyIslands(DecideState* state) {
  std::vector<KeptGroup> keeps;
  for (int group :
       CostlyIslands(state->view, state->context, state->classes, state->leader, state->groups)) {
    keeps.push_back({group, Reason::kCastsCostMore});
  }
  KeepAfterVotes(keeps, state);
  return Status();
}

Status ConcludeNodes(DecideState* state) {
  Conclude(state);
  return Status();
}

Status WarnOfPolicy(DecideState* state) {
  WarnOfMixedByModel(state->view, &state->decisions);
  return Status();
}

Status RoundCubeInputs(DecideState* state) {
  DecideCubeInputs(state->view, state->context.mode.low_type, &state->decisions);
  return Status();
}

Status RoundPorts(DecideState* state) {
  RoundCustomPorts(state->view, state->classes, &state->decisions);
  return Status();
}

Status WarnOfKernels(DecideState* state) {
  WarnOfMissingKernels(state->view, state->classes, &state->decisions);
  return Status();
}

}  // namespace

const std::vector<DecideRule>& DecideRules() {
  static const auto* rules = new std::vector<DecideRule>{
      {"classify_nodes", "before all others, which ask what can change", Always, Classify},
      {"check_origin", "before any decision: a target that lacks a dtype is an error", KeepsOrigin,
       CheckOrigin},
      {"apply_mode", "before the rules about several nodes, which change what is decided here",
       Always, AskModeAndLists},
      {"value_ranges", "before the keep rules, which ask for ranges", Always, FindValueRanges},
      {"variable_updates", "before the keep rules: the first rule that keeps a node is its reason",
       Mixes, KeepVariableUpdates},
      {"accumulators", "after value_ranges; before the keep rules that ask what accumulates",
       Lowers, FindAccumulators},
      {"follows_forward", "before the other keep rules: the user named what its nodes follow",
       Lowers, KeepGradientsOfKept},
      {"sums_iterations", "before the rules about values, which say less about an accumulator",
       Lowers, KeepAccumulators},
      {"loop_end_rules", "after sums_iterations, which says more about an accumulator", Lowers,
       KeepLoopEnds},
      {"value_updates", "after sums_iterations, which says more about a step of many", Lowers,
       KeepValueUpdates},
      {"window_sums", "before before_magnifiers: the kernel says more than what reads it", Lowers,
       KeepWindowSums},
      {"range_rules", "before before_magnifiers: a wrong value says more than a rounding error",
       Lowers, KeepWhatLeavesRange},
      {"offset_rules", "before before_magnifiers: it names the constant", Lowers, KeepLargeOffsets},
      {"cancelling_products", "after the rules about constants, which say more about a sum", Lowers,
       KeepCancellingProducts},
      {"before_solvers", "after cancelling_products: a sum that cancels is nearer than a solver",
       Lowers, KeepBeforeSolvers},
      {"carried_values", "after the rules about what a node computes: this node only moves values",
       Lowers, KeepCarriedValues},
      {"before_magnifiers", "after all other keep rules, which say more about a node", Lowers,
       KeepBeforeMagnifiers},
      {"kept_in_place", "after all keep rules, which see why in the function itself", Lowers,
       KeepMarkedInPlace},
      {"slow_kernels", "after the rules about values: right comes before fast", WeighsKernels,
       KeepSlowKernels},
      {"warn_of_keep_rules", "after the keep rules, which only count in a mode that forces dtypes",
       LowersByForce, WarnOfLoweredAnyway},
      {"all_white", "after the keep rules, which keep nodes that are white by default",
       MixesAllWhite, LowerAllWhite},
      {"shared_dtypes", "after all rules about single groups; before votes are counted", Always,
       ShareDtypes},
      {"small_operands", "after the keep rules, whose nodes have a vote whatever their size", Mixes,
       SilenceSmallOperands},
      {"resolve_gray", "after shared_dtypes, whose classes have one vote", Always,
       ResolveGrayByVotes},
      {"follow_consumers", "after resolve_gray, which leaves gray nodes without votes",
       FollowsConsumers, LowerWhatFollowsConsumers},
      {"cheapest_dtypes", "after all that lowers: it weighs what is lowered in the end",
       WeighsKernelsAndLists, KeepCheapestDtypes},
      {"costly_islands", "after cheapest_dtypes: an island is what is lowered in the end",
       KeepsCostlyIslands, KeepCostlyIslands},
      {"conclude", "after the last vote: dtypes and reasons come from the votes", Always,
       ConcludeNodes},
      {"mixed_by_model", "after conclude: it asks what the mode lowers", Mixes, WarnOfPolicy},
      {"cube_inputs", "after conclude, which names the nodes whose inputs are rounded",
       RoundsCubeInputs, RoundCubeInputs},
      {"custom_ports", "after conclude: ports are rounded if the node keeps another dtype", Always,
       RoundPorts},
      {"missing_kernels", "last: it warns of what keeps a dtype without a kernel", Lowers,
       WarnOfKernels},
  };
  return *rules;
}

}  // namespace npu_precision
