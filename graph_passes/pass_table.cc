#include "graph_passes/pass_table.h"

#include "graph_passes/decide/decide_precision.h"
#include "graph_passes/decide/plan_fused_ops.h"
#include "graph_passes/fuse/activations.h"
#include "graph_passes/fuse/batch_norm_v3.h"
#include "graph_passes/fuse/einsums_as_mat_muls.h"
#include "graph_passes/fuse/flatten_mat_muls.h"
#include "graph_passes/fuse/fold_batch_norms.h"
#include "graph_passes/fuse/fold_scales.h"
#include "graph_passes/fuse/fused_updates.h"
#include "graph_passes/fuse/gradients_as_mat_muls.h"
#include "graph_passes/fuse/grouped_convolutions.h"
#include "graph_passes/fuse/inline_convolutions.h"
#include "graph_passes/fuse/layer_norm.h"
#include "graph_passes/fuse/low_sums.h"
#include "graph_passes/fuse/low_weights.h"
#include "graph_passes/fuse/means_as_pools.h"
#include "graph_passes/fuse/pad_into_convolutions.h"
#include "graph_passes/fuse/same_padding.h"
#include "graph_passes/fuse/separate_lists.h"
#include "graph_passes/fuse/sink_reshapes.h"
#include "graph_passes/fuse/split_fused_ops.h"
#include "graph_passes/fuse/squeeze_masks.h"
#include "graph_passes/fuse/trained_norms.h"
#include "graph_passes/ledger.h"
#include "graph_passes/rewrite/compute_in_float32.h"
#include "graph_passes/rewrite/emulate.h"
#include "graph_passes/rewrite/fold_constants.h"
#include "graph_passes/rewrite/hoist_loop_invariants.h"
#include "graph_passes/rewrite/hoist_variable_reads.h"
#include "graph_passes/rewrite/insert_casts.h"
#include "graph_passes/rewrite/lower_collectives.h"
#include "graph_passes/rewrite/lower_io_types.h"
#include "graph_passes/rewrite/restore_float16.h"
#include "graph_passes/rewrite/round_for_xla.h"

namespace npu_precision {
namespace {

using tensorflow::Status;

bool Always(const PassState&) { return true; }

bool LowersForSpeed(const PassState& state) { return LowersForSpeed(state.context.mode.rule); }

// An emulated graph runs in float32, so nothing would become faster.
bool LowersForSpeedHere(const PassState& state) { return LowersForSpeed(state) && !state.emulates; }

// In float16, TensorFlow fuses no activation into a product, and the CPU computes in float32.
bool LowersToBfloat16Here(const PassState& state) {
  return LowersForSpeedHere(state) && state.context.mode.low_type == tensorflow::DT_BFLOAT16;
}

bool Emulates(const PassState& state) { return state.emulates; }

bool MayHaveFloat16(const PassState& state) { return Lowers(state.context.mode.rule); }

bool MayComputeInFloat32(const PassState& state) {
  return MayHaveFloat16(state) && !state.emulates &&
         state.context.float16_compute != Float16Compute::kNative;
}

bool IsCompiled(const PassState& state) { return state.context.compiled; }

bool KeepsLowTypes(const PassState& state) { return !state.emulates; }

// Cube mode rounds the inputs of a fused op without splitting it, and a mode that keeps every dtype
// has nothing to split.
bool SplitsFusedOps(ModeRule rule) {
  return rule != ModeRule::kKeepOrigin && rule != ModeRule::kCube;
}

Status Decide(PassState* state, bool* changed) {
  *changed = false;
  Decided& decided = state->decided;
  if (SplitsFusedOps(state->context.mode.rule) && HasFusedOps(state->graph())) {
    decided.found_fused_ops = true;
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
  state->ledger->missed = state->missed;
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
      {"restore_float16",
       "Makes float16 or bfloat16 again what an earlier run computes in float32.",
       "before all others: what an earlier run left in float32 is of the low type to them",
       Switch::kNone, false, MayHaveFloat16, RestoreFloat16},
      {"split_fused_ops", "Writes the ops that TensorFlow fused in float32 as their parts.",
       "before all that look for single ops", Switch::kForSpeed, false, LowersForSpeedHere,
       SplitFusedOps},
      {"inline_convolutions",
       "Runs a convolution that XLA compiles by itself as TensorFlow's kernel.",
       "before all that look for convolutions", Switch::kForSpeed, false, LowersForSpeedHere,
       InlineConvolutions},
      {"hoist_variable_reads",
       "Reads variables that no loop writes before a loop instead of in each iteration.",
       "before hoist_loop_invariants, which drops what only the reads waited for; before deciding: "
       "the weights are cast once",
       Switch::kForSpeed, false, LowersForSpeed, HoistVariableReads},
      {"hoist_loop_invariants",
       "Reads a loop variable that no iteration changes from outside the loop.",
       "before deciding: what comes of it is decided about as if written so", Switch::kForSpeed,
       false, LowersForSpeed, HoistLoopInvariants},
      {"separate_lists", "Gives each reader of an empty TensorList a list of its own.",
       "before deciding: lists of one node have one dtype", Switch::kForSpeed, false,
       LowersForSpeed, SeparateLists},
      {"fold_batch_norms",
       "Folds inference batch norms into the convolutions before them, in float32.",
       "before deciding, in float32: weights are rounded once, after they were scaled",
       Switch::kForSpeed, false, LowersForSpeed, FoldBatchNorms},
      {"batch_norm_v3", "Writes FusedBatchNorm, which knows float32 only, as FusedBatchNormV3.",
       "after fold_batch_norms, which leaves some; before deciding, which cannot lower version 1",
       Switch::kForSpeed, false, LowersForSpeed, WriteBatchNormsAsV3},
      {"grouped_convolutions",
       "Writes depthwise convolutions as grouped ones, into which more ops fuse.",
       "after fold_batch_norms, which makes the biases that activations follow; before "
       "pad_into_convolutions, which needs it where only a Conv2D can pad",
       Switch::kForSpeed, false, LowersForSpeedHere, GroupDepthwiseConvolutions},
      {"pad_into_convolutions", "Lets convolutions pad by themselves instead of a Pad before them.",
       "before deciding: a Pad that goes needs no decision and no Cast", Switch::kForSpeed, false,
       LowersForSpeedHere, PadIntoConvolutions},
      {"means_as_pools",
       "Writes means over height and width as average pools, which bfloat16 can compute.",
       "before deciding: a pool may be lowered where its Mean may not", Switch::kForSpeed, false,
       LowersForSpeedHere, WriteMeansAsPools},
      {"flatten_mat_muls",
       "Writes a BatchMatMul or Einsum with one weight for the batch as one MatMul.",
       "before deciding: MatMul, BiasAdd and Reshape are decided about as if written so",
       Switch::kForSpeed, false, LowersForSpeedHere, FlattenMatMuls},
      {"einsums_as_mat_muls",
       "Writes an Einsum with batch dimensions as a BatchMatMul between Transposes.",
       "after flatten_mat_muls, which takes Einsums that are one MatMul; before deciding: the "
       "Transposes follow the products",
       Switch::kForSpeed, false, LowersForSpeedHere, WriteEinsumsAsMatMuls},
      {"squeeze_masks",
       "Reads masks of attention as matrices where the fused kernel would be slow.",
       "after einsums_as_mat_muls, which makes products; before deciding: the Squeeze follows the "
       "mask",
       Switch::kForSpeed, false, LowersForSpeedHere, SqueezeMasks},
      {"layer_norm", "Writes a LayerNorm in the form that TensorFlow fuses into one kernel.",
       "after batch_norm_v3, which looks for nodes of the user, and flatten_mat_muls, whose "
       "Reshapes it must know of; before deciding, which lowers what it writes, but not what it "
       "finds",
       Switch::kForSpeed, false, LowersForSpeedHere, WriteLayerNorms},
      {"trained_norms",
       "Writes batch norms in training, and their gradients, as TensorFlow's fused ops.",
       "after layer_norm, which looks for nodes of the user; before fold_scales, which would take "
       "the scale alone",
       Switch::kForSpeed, false, LowersForSpeedHere, WriteTrainedNorms},
      {"fold_scales",
       "Folds scales of channels, as in Keras 3's batch norms, into convolutions, or fuses them.",
       "after fold_batch_norms, which does it once where all is constant, and "
       "pad_into_convolutions, which asks for the shape of the weights; after layer_norm, whose "
       "scale and offset are of channels, too; before activations, which need its biases",
       Switch::kForSpeed, false, LowersForSpeedHere, FoldScales},
      {"activations", "Writes activations behind products in the form that TensorFlow fuses.",
       "after fold_batch_norms, which makes the biases of convolutions, and flatten_mat_muls, "
       "whose Reshapes it moves; before deciding: what is written anew is decided about",
       Switch::kForSpeed, false, LowersToBfloat16Here, WriteActivations},
      {"decide", "Decides about the dtype of each node.",
       "after all that changes which ops there are; fused ops are planned with the "
       "decisions, because a gray neighbor has the same votes whether or not the remapper ran",
       Switch::kNone, false, Always, Decide},
      {"insert_casts", "Inserts the Casts that the decisions need.",
       "after the decisions, which it carries out", Switch::kNone, false, Always, InsertCasts},
      {"fold_constants", "Stores constants that only inserted Casts read in the low type.",
       "after the casts: it replaces the Casts that follow constants", Switch::kForSize, true,
       KeepsLowTypes, FoldConstants},
      {"same_padding", "Changes the padding of lowered 1x1 convolutions from VALID to SAME.",
       "after the casts: only convolutions of a low type gain by it", Switch::kForSpeed, true,
       LowersForSpeedHere, WriteSamePadding},
      {"sink_reshapes", "Moves a Reshape after a lowered MatMul behind its BiasAdd and activation.",
       "after the casts: only a MatMul and a bias of one dtype can be fused", Switch::kForSpeed,
       true, LowersForSpeedHere, SinkReshapes},
      {"gradients_as_mat_muls",
       "Writes the gradients of lowered 1x1 convolutions of small images as MatMuls.",
       "after the casts: only a product of the low type gains by it; before fused_updates, which "
       "reads gradients",
       Switch::kForSpeed, true, LowersToBfloat16Here, WriteGradientsAsMatMuls},
      {"lower_io_types", "Changes inputs and outputs to the low type where the caller asks for it.",
       "after whatever asks what is fetched, because that changes its dtype here", Switch::kNone,
       true, KeepsLowTypes, LowerIoTypes},
      {"lower_collectives", "Adds gradients up over the workers in the low type.",
       "after the casts, which it moves behind collectives; before the ledger, which tells of them",
       Switch::kForNetwork, true, LowersForSpeedHere, LowerCollectives},
      {"compute_in_float32",
       "Computes in float32 where the CPU has no fast float16, or truncates bfloat16.",
       "after the casts and all that changes what is of a low type, which it undoes the dtypes of; "
       "before the ledger, which says in which dtype a node computes",
       Switch::kNone, true, MayComputeInFloat32, ComputeInFloat32},
      {"round_for_xla",
       "Rounds by XlaReducePrecision where XLA might drop a Cast to a low type and back.",
       "after compute_in_float32, whose Casts it replaces; before the ledger, which counts Casts",
       Switch::kNone, true, IsCompiled, RoundForXla},
      {"fused_updates", "Updates variables in one sweep, from gradients of the low type.",
       "after all that writes Casts, which it drops; before the ledger, which counts them",
       Switch::kForSpeed, true, LowersForSpeedHere, FuseUpdates},
      {"low_sums", "Adds up in float32 straight from tensors of the low type.",
       "after fused_updates, which takes sums of gradients into its own op; before the ledger, "
       "which counts Casts",
       Switch::kForSpeed, true, LowersForSpeedHere, AddLowTerms},
      {"low_weights", "Keeps weights in the low type until they change.",
       "after fused_updates, whose op writes what is kept; before the ledger, which counts Casts",
       Switch::kForSpeed, true, LowersForSpeedHere, KeepLowWeights},
      {"ledger", "Writes down what was decided and changed.",
       "before emulate, which undoes what it is about", Switch::kNone, true, Always, WriteLedger},
      {"emulate", "Computes lowered nodes in float32 and rounds their values to the low type.",
       "last: it undoes the dtypes that the others rely on", Switch::kEmulation, true, Emulates,
       EmulateLowTypes},
      {"call_boundaries", "Moves Casts out of functions that have one caller, offline.",
       "after all others, in each function: it moves the Casts that they left at calls",
       Switch::kForSpeed, false, LowersForSpeedHere, nullptr},
      {"fuse_ops", "Fuses ops by TensorFlow's remapper where a session's config has it off.",
       "after all others, in Grappler's second iteration: by then the remapper has run if it is on",
       Switch::kForSpeed, false, LowersForSpeedHere, nullptr},
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
