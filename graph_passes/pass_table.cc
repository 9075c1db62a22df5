#include "graph_passes/pass_table.h"

#include "graph_passes/decide/decide_precision.h"
#include "graph_passes/decide/plan_fused_ops.h"
#include "graph_passes/fuse/activations.h"
#include "graph_passes/fuse/batch_norm_v3.h"
#include "graph_passes/fuse/einsums_as_mat_muls.h"
#include "graph_passes/fuse/flatten_mat_muls.h"
#include "graph_passes/fuse/fold_batch_norms.h"
#include "graph_passes/fuse/grouped_convolutions.h"
#include "graph_passes/fuse/layer_norm.h"
#include "graph_passes/fuse/means_as_pools.h"
#include "graph_passes/fuse/pad_into_convolutions.h"
#include "graph_passes/fuse/same_padding.h"
#include "graph_passes/fuse/sink_reshapes.h"
#include "graph_passes/fuse/squeeze_masks.h"
#include "graph_passes/ledger.h"
#include "graph_passes/rewrite/compute_in_float32.h"
#include "graph_passes/rewrite/emulate.h"
#include "graph_passes/rewrite/fold_constants.h"
#include "graph_passes/rewrite/hoist_loop_invariants.h"
#include "graph_passes/rewrite/insert_casts.h"
#include "graph_passes/rewrite/lower_collectives.h"
#include "graph_passes/rewrite/lower_io_types.h"
#include "graph_passes/rewrite/restore_float16.h"

namespace npu_precision {
namespace {

using tensorflow::Status;

bool Always(const PassState&) { return true; }

bool LowersForSpeed(const PassState& state) { return LowersForSpeed(state.context.mode.rule); }

// An emulated graph runs in float32: nothing would become faster.
bool LowersForSpeedHere(const PassState& state) { return LowersForSpeed(state) && !state.emulates; }

// TensorFlow fuses no activation into a product of float16.
bool LowersToBfloat16Here(const PassState& state) {
  return LowersForSpeedHere(state) && state.context.mode.low_type == tensorflow::DT_BFLOAT16;
}

bool Emulates(const PassState& state) { return state.emulates; }

bool MayHaveFloat16(const PassState& state) { return Lowers(state.context.mode.rule); }

bool MayComputeInFloat32(const PassState& state) {
  return MayHaveFloat16(state) && !state.emulates &&
         state.context.float16_compute != Float16Compute::kNative;
}

bool KeepsLowTypes(const PassState& state) { return !state.emulates; }

// Cube mode rounds the inputs of a fused op as it stands, and a mode that keeps every dtype has
// nothing to split.
bool SplitsFusedOps(ModeRule rule) {
  return rule != ModeRule::kKeepOrigin && rule != ModeRule::kCube;
}

Status Decide(PassState* state, bool* changed) {
  *changed = false;
  Decided& decided = state->decided;
  decided.found_fused_ops = SplitsFusedOps(state->context.mode.rule) && HasFusedOps(state->graph());
  if (decided.found_fused_ops) {
    decided.graph = &state->planned;
    decided.view = &state->planned_view;
    return PlanFusedOps(state->graph(), state->values, state->context, &state->planned,
                        &state->planned_view, &decided.decisions);
  }
  decided.graph = &state->graph();
  decided.view = &state->view();
  return DecidePrecision(state->view(), state->values, state->context, &decided.decisions);
}

Status WriteLedger(PassState* state, bool* changed) {
  *changed = false;
  state->ledger->rewrites = state->rewrites;
  state->ledger->collectives = state->collectives;
  FillLedger(*state->decided.view, state->decided.decisions, state->view(), state->context,
             state->details, state->ledger);
  const std::vector<std::string>& warnings = state->decided.decisions.warnings;
  state->ledger->warnings.insert(state->ledger->warnings.end(), warnings.begin(), warnings.end());
  return Status();
}

}  // namespace

const std::vector<Pass>& Passes() {
  static const auto* passes = new std::vector<Pass>{
      {"restore_float16", "undoes an earlier run's compute_in_float32",
       "before all others: what an earlier run left in float32 is float16 to them", "",
       Switch::kNone, false, MayHaveFloat16, RestoreFloat16},
      {"hoist_loop_invariants", "reads what no iteration changes from outside the loop",
       "before deciding: what comes of it is decided about as if written so", "loop_constants",
       Switch::kForSpeed, false, LowersForSpeed, HoistLoopInvariants},
      {"fold_batch_norms", "folds inference batch norms into the convolutions before them",
       "before deciding, in float32: weights are rounded once, after they were scaled",
       "fold_batch_norms", Switch::kForSpeed, false, LowersForSpeed, FoldBatchNorms},
      {"batch_norm_v3", "replaces FusedBatchNorm, and its gradient, by the third version",
       "after fold_batch_norms, which leaves some; before deciding, which cannot lower version 1",
       "batch_norm_v3", Switch::kForSpeed, false, LowersForSpeed, WriteBatchNormsAsV3},
      {"grouped_convolutions",
       "turns depthwise convolutions into grouped ones where more ops fuse into these",
       "after fold_batch_norms, which makes the biases that activations follow; before "
       "pad_into_convolutions, which needs it where only a Conv2D can pad",
       "grouped_convolutions", Switch::kForSpeed, false, LowersForSpeedHere,
       GroupDepthwiseConvolutions},
      {"pad_into_convolutions", "lets convolutions pad their input, in place of a Pad",
       "before deciding: a Pad that goes needs no decision and no Cast", "pad_into_convolutions",
       Switch::kForSpeed, false, LowersForSpeedHere, PadIntoConvolutions},
      {"means_as_pools", "turns means over images into average pools",
       "before deciding: a pool may be lowered where its Mean may not", "means_as_pools",
       Switch::kForSpeed, false, LowersForSpeedHere, WriteMeansAsPools},
      {"flatten_mat_muls",
       "turns a BatchMatMul or Einsum with one weight for the whole batch into a MatMul",
       "before deciding: MatMul, BiasAdd and Reshape are decided about as if written so",
       "flatten_mat_muls", Switch::kForSpeed, false, LowersForSpeedHere, FlattenMatMuls},
      {"einsums_as_mat_muls",
       "turns an Einsum with batch dimensions into a BatchMatMul between Transposes",
       "after flatten_mat_muls, which takes Einsums that are one MatMul; before deciding: the "
       "Transposes follow the products",
       "einsums_as_mat_muls", Switch::kForSpeed, false, LowersForSpeedHere, WriteEinsumsAsMatMuls},
      {"squeeze_masks", "reads attention masks as matrices where the fused kernel is slow",
       "after einsums_as_mat_muls, which makes products; before deciding: the Squeeze follows the "
       "mask",
       "squeeze_masks", Switch::kForSpeed, false, LowersForSpeedHere, SqueezeMasks},
      {"layer_norm", "writes a LayerNorm of elementwise ops in the form that TensorFlow fuses",
       "after batch_norm_v3, which looks for nodes of the user, and flatten_mat_muls, whose "
       "Reshapes it must know of; before deciding, which lowers what it writes, but not what it "
       "finds",
       "layer_norm", Switch::kForSpeed, false, LowersForSpeedHere, WriteLayerNorms},
      {"activations", "writes an activation after a product in the form that TensorFlow fuses",
       "after fold_batch_norms, which makes the biases of convolutions, and flatten_mat_muls, "
       "whose Reshapes it moves; before deciding: what is written anew is decided about",
       "activations", Switch::kForSpeed, false, LowersToBfloat16Here, WriteActivations},
      {"decide", "decides about every node, and changes nothing",
       "after all that changes which ops there are; fused ops are planned with the "
       "decisions, because a gray neighbor has the same votes whether or not the remapper ran",
       "", Switch::kNone, false, Always, Decide},
      {"insert_casts", "sets the dtypes that were decided, and connects inputs with Casts",
       "after the decisions, which it carries out", "", Switch::kNone, false, Always, InsertCasts},
      {"fold_constants", "stores constants in the low type",
       "after the casts: it replaces the Casts that follow constants", "fold_constants",
       Switch::kForSize, true, KeepsLowTypes, FoldConstants},
      {"same_padding", "sets the padding of lowered 1x1 convolutions to SAME in place of VALID",
       "after the casts: only convolutions of a low type gain by it", "same_padding",
       Switch::kForSpeed, true, LowersForSpeedHere, WriteSamePadding},
      {"sink_reshapes", "moves a Reshape behind the bias and activation of a lowered MatMul",
       "after the casts: only a MatMul and a bias of one dtype can be fused", "sink_reshapes",
       Switch::kForSpeed, true, LowersForSpeedHere, SinkReshapes},
      {"lower_io_types", "gives inputs and outputs the low type, if a conversion asks for it",
       "after whatever asks what is fetched, because that changes its dtype here", "",
       Switch::kNone, true, KeepsLowTypes, LowerIoTypes},
      {"lower_collectives", "sums gradients over workers in the low type",
       "after the casts, which it moves behind collectives; before the ledger, which tells of them",
       "lower_collectives", Switch::kForNetwork, true, LowersForSpeedHere, LowerCollectives},
      {"compute_in_float32",
       "computes in float32, on rounded values, where the CPU only emulates float16",
       "after the casts and all that changes what is of a low type, which it undoes the dtypes of; "
       "before the ledger, which says in which dtype a node computes",
       "", Switch::kNone, true, MayComputeInFloat32, ComputeInFloat32},
      {"ledger", "records the decisions", "before emulate, which undoes what it is about", "",
       Switch::kNone, true, Always, WriteLedger},
      {"emulate", "undoes the dtypes and rounds values instead",
       "last: it undoes the dtypes that the others rely on", "emulate", Switch::kEmulation, true,
       Emulates, EmulateLowTypes},
      {"call_boundaries", "moves Casts out of functions that have one caller",
       "after all others, in each function: it moves the Casts that they left at calls",
       "call_boundaries", Switch::kForSpeed, false, LowersForSpeedHere, nullptr},
  };
  return *passes;
}

std::string PurposeName(Switch purpose) {
  switch (purpose) {
    case Switch::kNone:
      return "";
    case Switch::kForSpeed:
      return "speed";
    case Switch::kForSize:
      return "size";
    case Switch::kForNetwork:
      return "network";
    case Switch::kEmulation:
      return "emulation";
  }
  return "";
}

}  // namespace npu_precision
