#include "graph_passes/pipeline.h"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "graph_passes/graph/graph_text.h"
#include "graph_passes/graph/op_set.h"
#include "graph_passes/lists/mixlist_warnings.h"
#include "graph_passes/pass_table.h"
#include "graph_passes/rewrite/restore_float16.h"
#include "graph_passes/rewrite/verify_graph.h"
#include "tensorflow/core/lib/core/errors.h"
#include "tensorflow/core/lib/hash/hash.h"
#include "tensorflow/core/lib/strings/proto_serialization.h"

namespace npu_precision {
namespace {

using tensorflow::GraphDef;
using tensorflow::Status;

// Fused nodes have lost the names of their parts, so it is not known which entries named a part.
constexpr char kFusedBefore[] =
    "the remapper fused nodes before NpuOptimizer ran: of each, node: entries see the last name "
    "only, and marks of keep_dtype_scope() are lost. Let npu_config_proto(), NPURunConfig or "
    "enable() place NpuOptimizer before the remapper, or set remapping OFF";

// TensorFlow gives this epsilon to LayerNorms that it fuses from single ops, whatever their own
// epsilon.
constexpr float kFusedEpsilon = 0.001f;
constexpr char kLayerNormsBefore[] =
    "the remapper fused LayerNorms before NpuOptimizer ran, and TensorFlow gives some of them an "
    "epsilon of 0.001, whatever theirs is: results may be wrong where variances are small. Let "
    "npu_config_proto(), NPURunConfig or enable() place NpuOptimizer before the remapper, or set "
    "remapping OFF";

bool HasFusedLayerNorm(const GraphView& view) {
  const OpSet fused(view, "_MklLayerNorm");
  if (fused.IsEmpty()) return false;
  const std::vector<int> ids = fused.Ids();
  return std::any_of(ids.begin(), ids.end(), [&view](int id) {
    const auto epsilon = view.node(id).attr().find("epsilon");
    return epsilon == view.node(id).attr().end() || epsilon->second.f() == kFusedEpsilon;
  });
}

class Driver {
 public:
  Driver(const PipelineOptions& options, PassState* state) : options_(options), state_(*state) {}

  Status Run() {
    TF_RETURN_IF_ERROR(Show(0, "given"));
    fingerprint_ = Fingerprint();
    for (const Pass& pass : Passes()) {
      ++number_;
      const bool is_on = pass.purpose == Switch::kNone || options_.passes.count(pass.name) != 0;
      state_.is_named = options_.named.count(pass.name) != 0;
      if (is_on && pass.run != nullptr && pass.when(state_)) TF_RETURN_IF_ERROR(RunPass(pass));
    }
    return Status();
  }

  bool changed_anything() const { return changed_anything_; }
  bool restored_float16() const { return restored_float16_; }

 private:
  Status RunPass(const Pass& pass) {
    if (pass.in_place) {
      TF_RETURN_IF_ERROR(state_.Own());
      fingerprint_ = Fingerprint();  // Large values were set aside.
    }
    const tensorflow::uint64 before = fingerprint_;
    bool changed = false;
    TF_RETURN_IF_ERROR(pass.run(&state_, &changed));
    state_.TakeNewGraph(changed);
    fingerprint_ = Fingerprint();
    if ((fingerprint_ != before) != (changed && options_.check_changed)) {
      return tensorflow::errors::Internal("pass ", pass.name, " says that it ",
                                          changed ? "changed" : "did not change",
                                          " the graph, which is not so");
    }
    if (!changed) return Status();
    changed_anything_ = true;
    restored_float16_ |= pass.run == RestoreFloat16;
    TF_RETURN_IF_ERROR(VerifyGraph(state_.given(), state_.preserved, state_.context.fetched,
                                   state_.graph(), state_.mutable_view()));
    return Show(number_, pass.name);
  }

  // A hash that is equal for equal nodes in the same order; 0 if hashes are not compared. It leaves
  // out the library, which no pass changes: hashing it for each function of it takes quadratic
  // time.
  tensorflow::uint64 Fingerprint() const {
    if (!options_.check_changed) return 0;
    tensorflow::uint64 hash = 0;
    for (const tensorflow::NodeDef& node : state_.graph().node()) {
      hash = tensorflow::Hash64Combine(hash, tensorflow::DeterministicProtoHash64(node));
    }
    return hash;
  }

  Status Show(int number, const char* pass) const {
    if (options_.observer == nullptr) return Status();
    return options_.observer->Show(options_.first_number + number, pass, GraphText(state_.graph()));
  }

  const PipelineOptions& options_;
  PassState& state_;
  int number_ = 0;  // the number of the row
  tensorflow::uint64 fingerprint_ = 0;
  bool changed_anything_ = false;
  bool restored_float16_ = false;
};

// Whether both have the same nodes, in whatever order.
bool HaveSameNodes(const GraphDef& a, const GraphDef& b) {
  if (a.node_size() != b.node_size()) return false;
  std::unordered_map<std::string, const tensorflow::NodeDef*> nodes;
  for (const tensorflow::NodeDef& node : a.node()) nodes[node.name()] = &node;
  std::string text_a, text_b;
  for (const tensorflow::NodeDef& node : b.node()) {
    const auto found = nodes.find(node.name());
    if (found == nodes.end()) return false;
    tensorflow::SerializeToStringDeterministic(*found->second, &text_a);
    tensorflow::SerializeToStringDeterministic(node, &text_b);
    if (text_a != text_b) return false;
  }
  return true;
}

void AddWarnings(const PassState& state, Ledger* ledger) {
  if (state.decided.found_fused_ops) ledger->warnings.push_back(kFusedBefore);
  if (HasFusedLayerNorm(state.given())) ledger->warnings.push_back(kLayerNormsBefore);
  ledger->matches_expected = IsWhatListsAreFor(state.given(), ledger->counts.lowered);
  if (ledger->matches_expected && !state.context.lists->edits().empty()) {
    EntryMatches matches = MatchEntries(*state.context.lists, state.given());
    for (const EntryWarning& warning : matches.unmatched) {
      ledger->unmatched.push_back(warning.Line());
    }
    ledger->matched = std::move(matches.matched);
  }
  if (ledger->matches_expected && state.context.custom_dtypes != nullptr) {
    for (const std::string& line : UnmatchedLines(*state.context.custom_dtypes, state.given())) {
      ledger->unmatched.push_back(line);
    }
  }
  ledger->warnings.insert(ledger->warnings.end(), ledger->unmatched.begin(),
                          ledger->unmatched.end());
}

}  // namespace

Status RunPipeline(const GraphDef& given, const DecideContext& context,
                   const PipelineOptions& options, GraphDef* out, Ledger* ledger, bool* changed) {
  PassState state(context, options.passes.count("emulate") != 0, options.saturates);
  state.ledger = ledger;
  state.details = options.details;
  TF_RETURN_IF_ERROR(state.Start(given));
  Driver driver(options, &state);
  TF_RETURN_IF_ERROR(driver.Run());
  *changed = driver.changed_anything();
  if (*changed) {
    state.MoveTo(out);
    // The run may have redone what restore_float16 undid.
    if (driver.restored_float16() && HaveSameNodes(given, *out)) *changed = false;
  }
  if (!*changed) *out = given;
  AddWarnings(state, ledger);
  return Status();
}

}  // namespace npu_precision
