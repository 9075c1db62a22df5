#include "graph_passes/pipeline.h"

#include "graph_passes/decide_precision.h"
#include "graph_passes/fold_batch_norms.h"
#include "graph_passes/fold_constants.h"
#include "graph_passes/insert_casts.h"
#include "graph_passes/marks.h"
#include "graph_passes/mixlist_warnings.h"
#include "graph_passes/plan_fused_ops.h"
#include "graph_passes/same_padding.h"
#include "graph_passes/verify_graph.h"
#include "tensorflow/core/lib/core/errors.h"

namespace npu_precision {
namespace {

using tensorflow::GraphDef;
using tensorflow::Status;

// What was in the fused nodes cannot be known, so neither can whether the user meant one of them.
constexpr char kFusedBefore[] =
    "the remapper fused nodes before NpuOptimizer ran: of each, node: entries see the last name "
    "only, and marks of keep_dtype_scope() are lost. Let npu_config_proto(), NPURunConfig or "
    "enable() place NpuOptimizer before the remapper, or set remapping OFF";

// Cube mode rounds the inputs of a fused op as it stands, and a mode that keeps every dtype has
// nothing to split.
bool SplitsFusedOps(ModeRule rule) {
  return rule != ModeRule::kKeepOrigin && rule != ModeRule::kCube;
}

}  // namespace

Status RunPipeline(const GraphDef& given, const DecideContext& context,
                   const PipelineOptions& options, GraphDef* out, Ledger* ledger) {
  // First, because every later pass looks through nodes that carry the mark.
  GraphDef unmarked;
  const GraphDef& source = UnmarkFedNodes(given, context.fed, &unmarked) ? unmarked : given;

  GraphView before;
  TF_RETURN_IF_ERROR(GraphView::Build(source, &before));

  // Before deciding, so that what comes of it is decided about as if it had been written so.
  GraphDef without_norms;
  GraphView without_norms_view;
  if (options.fold_batch_norms && LowersForSpeed(context.mode.rule)) {
    TF_RETURN_IF_ERROR(FoldBatchNorms(before, source, context, &without_norms, &ledger->rewrites));
  }
  const bool norms_folded = !ledger->rewrites.empty();
  if (norms_folded) {
    TF_RETURN_IF_ERROR(VerifyGraph(before, context.preserved, without_norms));
    TF_RETURN_IF_ERROR(GraphView::Build(without_norms, &without_norms_view));
  }
  const GraphDef& graph = norms_folded ? without_norms : source;
  const GraphView& graph_view = norms_folded ? without_norms_view : before;

  // Fused ops are planned with the decisions, not after them, because a gray neighbour must hear
  // the same votes whether or not the remapper ran.
  const bool fused = SplitsFusedOps(context.mode.rule) && HasFusedOps(graph);
  GraphDef planned;
  GraphView planned_view;
  Decisions decisions;
  if (fused) {
    TF_RETURN_IF_ERROR(PlanFusedOps(graph, context, &planned, &planned_view, &decisions));
  } else {
    TF_RETURN_IF_ERROR(DecidePrecision(graph_view, context, &decisions));
  }
  const GraphDef& decided = fused ? planned : graph;
  const GraphView& view = fused ? planned_view : graph_view;

  if (decisions.ChangesAnything(view)) {
    InsertCasts(decided, view, decisions, context, out);
    TF_RETURN_IF_ERROR(VerifyGraph(before, context.preserved, *out));
  } else {
    *out = norms_folded ? graph : given;
  }

  if (options.same_padding && LowersForSpeed(context.mode.rule)) {
    WriteSamePadding(out, &ledger->rewrites);
  }

  // After the casts, because it replaces the Casts that follow constants.
  if (options.fold_constants) {
    TF_RETURN_IF_ERROR(FoldConstants(context, out));
    TF_RETURN_IF_ERROR(VerifyGraph(before, context.preserved, *out));
  }

  TF_RETURN_IF_ERROR(FillLedger(view, decisions, *out, context, options.details, ledger));
  if (fused) ledger->warnings.push_back(kFusedBefore);
  for (std::string& warning : UnmatchedWarnings(*context.lists, before, ledger->lowered)) {
    ledger->warnings.push_back(std::move(warning));
  }
  return Status();
}

}  // namespace npu_precision
