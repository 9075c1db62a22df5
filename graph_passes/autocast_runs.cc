#include "graph_passes/autocast_runs.h"

#include <algorithm>
#include <set>
#include <unordered_map>
#include <vector>

#include "graph_passes/analysis/inherited_marks.h"
#include "graph_passes/graph/dtype_names.h"
#include "graph_passes/pass_table.h"
#include "tensorflow/core/lib/core/errors.h"

namespace npu_precision {
namespace {

using tensorflow::DataType;
using tensorflow::GraphDef;
using tensorflow::Status;

// Merges two ledgers. For nodes in both, the later run's entry wins.
void MergeNodes(std::vector<LedgerNode> more, std::vector<LedgerNode>* nodes) {
  std::unordered_map<std::string, size_t> places;
  for (size_t i = 0; i < nodes->size(); ++i) places[(*nodes)[i].name] = i;
  for (LedgerNode& node : more) {
    const auto place = places.find(node.name);
    if (place == places.end()) {
      nodes->push_back(std::move(node));
    } else {
      (*nodes)[place->second] = std::move(node);
    }
  }
}

class Runs {
 public:
  Runs(const DecideContext& context, const PipelineOptions& options,
       const AutocastOptions& autocast, Ledger* ledger)
      : context_(context), options_(options), autocast_(autocast), ledger_(*ledger) {
    options_.details = true;  // needed to merge ledgers
  }

  Status Run(std::set<DataType> dtypes, GraphDef* graph, bool* changed) {
    dtypes.erase(tensorflow::DT_FLOAT);
    DecideContext unmarked = context_;
    const DataType own = context_.mode.low_type;
    if (autocast_.only) {
      unmarked.autocast.clear();
    } else if (context_.mode.rule == ModeRule::kMix) {
      // The mark requests the dtype of the mode, so nodes with and without it vote for each other.
      unmarked.autocast.insert(own);
      dtypes.erase(own);
    }
    TF_RETURN_IF_ERROR(RunOnce(unmarked, graph, changed));
    for (DataType dtype : dtypes) {
      DecideContext marked = context_;
      TF_RETURN_IF_ERROR(autocast_.use_mode(dtype, &marked));
      marked.autocast = {dtype};
      options_.saturates &= dtype == tensorflow::DT_HALF;
      TF_RETURN_IF_ERROR(RunOnce(marked, graph, changed));
    }
    for (const LedgerNode& node : ledger_.nodes) ledger_.counts.AddNode(Counted(node));
    return Status();
  }

 private:
  Status RunOnce(const DecideContext& context, GraphDef* graph, bool* changed) {
    Ledger ledger;
    GraphDef out;
    bool changed_here;
    TF_RETURN_IF_ERROR(RunPipeline(*graph, context, options_, &out, &ledger, &changed_here));
    graph->Swap(&out);
    *changed |= changed_here;
    options_.first_number += Passes().size();
    Merge(std::move(ledger));
    return Status();
  }

  void Merge(Ledger ledger) {
    if (is_first_) {
      ledger_.nodes = std::move(ledger.nodes);
      ledger_.mappings = std::move(ledger.mappings);
      ledger_.unmatched = std::move(ledger.unmatched);
      ledger_.matches_expected = ledger.matches_expected;
      is_first_ = false;
    } else {
      MergeNodes(std::move(ledger.nodes), &ledger_.nodes);
    }
    ledger_.total_nodes = ledger.total_nodes;
    ledger_.casts = ledger.casts;
    ledger_.cast_list = std::move(ledger.cast_list);
    ledger_.rewrites.insert(ledger_.rewrites.end(), ledger.rewrites.begin(), ledger.rewrites.end());
    ledger_.missed = std::move(ledger.missed);
    for (CollectiveEntry& collective : ledger.collectives) Merge(std::move(collective));
    for (std::string& warning : ledger.warnings) {
      std::vector<std::string>& all = ledger_.warnings;
      if (std::find(all.begin(), all.end(), warning) == all.end()) all.push_back(warning);
    }
  }

  // Adds the entry of a run. If an earlier run lowered the collective, that run's entry stays.
  void Merge(CollectiveEntry collective) {
    for (CollectiveEntry& known : ledger_.collectives) {
      if (known.node != collective.node) continue;
      if (known.lowered == 0) known = std::move(collective);
      return;
    }
    ledger_.collectives.push_back(std::move(collective));
  }

  const DecideContext& context_;
  PipelineOptions options_;
  const AutocastOptions& autocast_;
  Ledger& ledger_;
  bool is_first_ = true;
};

}  // namespace

Status RunWithAutocast(const GraphDef& given, const DecideContext& context,
                       const PipelineOptions& options, const AutocastOptions& autocast,
                       GraphDef* out, Ledger* ledger, bool* changed) {
  *changed = false;
  if (!HasInheritedMarks(given)) {
    if (!autocast.only) return RunPipeline(given, context, options, out, ledger, changed);
    *out = given;
    ledger->total_nodes = given.node_size();
    return Status();
  }
  GraphView view;
  TF_RETURN_IF_ERROR(GraphView::Build(given, &view));
  *out = given;
  InheritMarks(view, out);
  TF_RETURN_IF_ERROR(
      Runs(context, options, autocast, ledger).Run(AutocastDtypes(given), out, changed));
  if (!*changed) *out = given;
  if (!options.details) {
    ledger->nodes.clear();
    ledger->cast_list.clear();
  }
  return Status();
}

}  // namespace npu_precision
