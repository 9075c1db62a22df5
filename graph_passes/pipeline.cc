#include "graph_passes/pipeline.h"

#include <algorithm>

#include "graph_passes/decide/decide_precision.h"
#include "graph_passes/decide/plan_fused_ops.h"
#include "graph_passes/graph/marks.h"
#include "graph_passes/lists/mixlist_warnings.h"
#include "graph_passes/rewrite/emulate.h"
#include "graph_passes/rewrite/fold_batch_norms.h"
#include "graph_passes/rewrite/fold_constants.h"
#include "graph_passes/rewrite/hoist_loop_invariants.h"
#include "graph_passes/rewrite/insert_casts.h"
#include "graph_passes/rewrite/lower_io_types.h"
#include "graph_passes/rewrite/same_padding.h"
#include "graph_passes/rewrite/sink_reshapes.h"
#include "graph_passes/rewrite/verify_graph.h"
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

bool FeedsInserted(const GraphView& view, const std::set<std::string>& fed) {
  return std::any_of(fed.begin(), fed.end(), [&view](const std::string& name) {
    const int id = view.IndexOf(name);
    return id >= 0 && view.IsInserted(id);
  });
}

}  // namespace

Status RunPipeline(const GraphDef& given, const DecideContext& context,
                   const PipelineOptions& options, GraphDef* out, Ledger* ledger) {
  GraphView before;
  TF_RETURN_IF_ERROR(GraphView::Build(given, &before));

  // First, because every later pass looks through nodes that carry the mark.
  GraphDef unmarked;
  const bool unmarks = FeedsInserted(before, context.fed);
  if (unmarks) {
    unmarked = given;
    UnmarkInserted(context.fed, &unmarked);
    TF_RETURN_IF_ERROR(GraphView::Build(unmarked, &before));
  }
  const GraphDef& source = unmarks ? unmarked : given;
  ConstantValues values;
  values.Add(source);

  // Before deciding, so that what comes of them is decided about as if it had been written so.
  const bool for_speed = LowersForSpeed(context.mode.rule);
  GraphDef hoisted;
  GraphView hoisted_view;
  if (options.loop_constants && for_speed) {
    HoistLoopInvariants(before, source, context, &hoisted, &ledger->rewrites);
  }
  const bool hoists = !ledger->rewrites.empty();
  if (hoists) {
    TF_RETURN_IF_ERROR(VerifyGraph(before, context.preserved, hoisted, &hoisted_view));
  }
  const GraphDef& with_norms = hoists ? hoisted : source;
  const GraphView& with_norms_view = hoists ? hoisted_view : before;

  GraphDef without_norms;
  GraphView without_norms_view;
  std::vector<RewriteEntry> folded;
  if (options.fold_batch_norms && for_speed) {
    TF_RETURN_IF_ERROR(
        FoldBatchNorms(with_norms_view, with_norms, context, &values, &without_norms, &folded));
  }
  if (!folded.empty()) {
    values.AddOwn(&without_norms);
    TF_RETURN_IF_ERROR(VerifyGraph(before, context.preserved, without_norms, &without_norms_view));
    ledger->rewrites.insert(ledger->rewrites.end(), folded.begin(), folded.end());
  }
  const GraphDef& graph = folded.empty() ? with_norms : without_norms;
  const GraphView& graph_view = folded.empty() ? with_norms_view : without_norms_view;

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

  GraphView after;
  if (decisions.ChangesAnything(view)) {
    InsertCasts(decided, view, decisions, context, out);
    TF_RETURN_IF_ERROR(VerifyGraph(before, context.preserved, *out, &after));
  } else {
    CopyWithoutValues(ledger->rewrites.empty() ? given : graph, out);
    TF_RETURN_IF_ERROR(GraphView::Build(*out, &after));
  }

  // After the casts, because it replaces the Casts that follow constants.
  if (options.fold_constants && !options.emulate) {
    TF_RETURN_IF_ERROR(FoldConstants(context, after, &values, out));
    TF_RETURN_IF_ERROR(VerifyGraph(before, context.preserved, *out, &after));
  }

  if (options.same_padding && for_speed && !options.emulate) {
    WriteSamePadding(after, values, context, out, &ledger->rewrites);
  }

  // After the casts, because only a MatMul and a bias of one dtype can be fused.
  if (options.sink_reshapes && for_speed && !options.emulate) {
    std::vector<RewriteEntry> sunk;
    SinkReshapes(after, values, context, out, &sunk);
    if (!sunk.empty()) {
      TF_RETURN_IF_ERROR(VerifyGraph(before, context.preserved, *out, &after));
      ledger->rewrites.insert(ledger->rewrites.end(), sunk.begin(), sunk.end());
    }
  }

  // After whatever asks what is fetched, because what is may change its dtype here.
  std::set<std::string> preserved = context.preserved;
  std::vector<RewriteEntry> lowered;
  if (!options.emulate) LowerIoTypes(after, out, &preserved, &lowered);
  if (!lowered.empty()) {
    TF_RETURN_IF_ERROR(VerifyGraph(before, preserved, *out, &after));
    ledger->rewrites.insert(ledger->rewrites.end(), lowered.begin(), lowered.end());
  }

  FillLedger(view, decisions, after, context, options.details, ledger);

  // After the ledger, which says what is emulated.
  if (options.emulate) {
    EmulateLowTypes(after, out);
    TF_RETURN_IF_ERROR(VerifyGraph(before, context.preserved, *out, &after));
  }

  values.Restore(out);
  if (fused) ledger->warnings.push_back(kFusedBefore);
  ledger->matches_expected = IsWhatListsAreFor(before, ledger->lowered);
  if (ledger->matches_expected && !context.lists->edits().empty()) {
    for (const EntryWarning& warning : UnmatchedWarnings(*context.lists, before)) {
      ledger->unmatched.push_back(warning.Line());
    }
  }
  ledger->warnings.insert(ledger->warnings.end(), ledger->unmatched.begin(),
                          ledger->unmatched.end());
  return Status();
}

}  // namespace npu_precision
