// NpuOptimizer, the Grappler optimizer. Sessions, functions and offline rewrites all run it.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cc/bodies_in_place.h"
#include "cc/collective_agreement.h"
#include "cc/compiled_functions.h"
#include "cc/error_op.h"
#include "cc/flight_store.h"
#include "cc/float16_on_cpu.h"
#include "cc/function_stubs.h"
#include "cc/fuse_ops.h"
#include "cc/kernel_support.h"
#include "cc/log_once.h"
#include "cc/lowered_so_far.h"
#include "cc/parameters.h"
#include "cc/pass_dump.h"
#include "cc/report.h"
#include "cc/saturate_op.h"
#include "cc/shapes.h"
#include "cc/targets.h"
#include "cc/tf_compat.h"
#include "cc/watch_compiled.h"
#include "cc/xla_support.h"
#include "graph_passes/autocast_runs.h"
#include "graph_passes/decide/plan_fused_ops.h"
#include "graph_passes/decide/reasons.h"
#include "graph_passes/graph/dtype_names.h"
#include "graph_passes/graph/input_names.h"
#include "graph_passes/graph/marks.h"
#include "graph_passes/pass_table.h"
#include "tensorflow/core/common_runtime/device_set.h"
#include "tensorflow/core/grappler/clusters/cluster.h"
#include "tensorflow/core/grappler/grappler_item.h"
#include "tensorflow/core/grappler/optimizers/custom_graph_optimizer.h"
#include "tensorflow/core/grappler/optimizers/custom_graph_optimizer_registry.h"
#include "tensorflow/core/lib/core/errors.h"

namespace npu_precision {
namespace {

using tensorflow::GraphDef;
using tensorflow::NodeDef;
using tensorflow::Status;
using tensorflow::grappler::Cluster;
using tensorflow::grappler::GrapplerItem;

// TensorFlow's name for the graph of a session, in all versions. A function has its own name.
constexpr char kSessionGraph[] = "tf_graph";

bool HasGpu(const Cluster* cluster) {
  if (cluster == nullptr) return false;
  for (const auto& device : cluster->GetDevices()) {
    if (device.second.type() == tensorflow::DEVICE_GPU) return true;
  }
  return false;
}

// Whether the graph will run in this process. An offline rewrite has names of devices, but no
// devices: it is not known where its result will run.
bool RunsHere(const Cluster* cluster) {
  return cluster != nullptr && cluster->GetDeviceSet() != nullptr;
}

// Whether the graph runs here, and no part of it in another process.
bool RunsHereOnly(const Cluster* cluster) {
  if (!RunsHere(cluster)) return false;
  const auto& devices = cluster->GetDeviceSet()->devices();
  return std::all_of(devices.begin(), devices.end(), [&devices](const tensorflow::Device* each) {
    return tensorflow::DeviceNameUtils::IsSameAddressSpace(each->parsed_name(),
                                                           devices.front()->parsed_name());
  });
}

std::set<std::string> Fetched(const GrapplerItem& item) {
  std::set<std::string> names;
  for (const std::string& fetch : item.fetch) {
    names.insert(std::string(ParseInput(fetch).producer));
  }
  return names;
}

std::set<std::string> Fed(const GrapplerItem& item) {
  std::set<std::string> names;
  for (const auto& feed : item.feed) {
    names.insert(std::string(ParseInput(feed.first).producer));
  }
  return names;
}

DecideContext ContextOf(const Parameters& parameters, const OpLists& lists,
                        const CustomDtypesFile& custom_dtypes, const DtypeSupport& support,
                        const GrapplerItem& item) {
  DecideContext context;
  context.mode = parameters.mode;
  context.lists = &lists;
  context.custom_dtypes = &custom_dtypes;
  context.magnifiers = &BuiltInMagnifiers();
  context.support = &support;
  context.float16_compute = parameters.float16_compute;
  context.weighs_kernels =
      parameters.target == kHostTarget && parameters.passes.count("emulate") == 0;
  context.keep_costly_islands = parameters.keep_costly_islands;
  context.lowers_matrix_ops = FactsOf(parameters.target).lowers_matrix_ops;
  for (const std::string& name : item.NodesToPreserve()) context.preserved.insert(name);
  for (const tensorflow::NodeDef& node : item.graph.node()) {
    if (HasPreservedMark(node)) context.preserved.insert(node.name());
    const BodyRole role = BodyRoleMark(node);
    if (role != BodyRole::kCalled) context.body_role = role;
    for (const ReadByCondition& each : ReadsByCondition(node)) {
      context.read_by_condition.push_back(each);
    }
  }
  context.fetched = Fetched(item);
  context.fed = Fed(item);
  return context;
}

// What executes the nodes of a graph.
enum Run { kByKernels, kByXla, kTriedForKernels, kTriedForXla };
bool IsTrial(Run run) { return run == kTriedForKernels || run == kTriedForXla; }

bool IsCompiled(const GraphDef& graph) {
  return std::any_of(graph.node().begin(), graph.node().end(), HasCompiledMark);
}

bool HasOrigins(const GraphDef& graph) {
  Origin origin;
  return std::any_of(graph.node().begin(), graph.node().end(),
                     [&origin](const NodeDef& node) { return ReadOrigin(node, &origin); });
}

// They write what TensorFlow's kernels are fast at. XLA fuses ops by itself.
void EraseForSpeed(std::set<std::string>* passes) {
  for (const Pass& pass : Passes()) {
    if (pass.purpose == Switch::kForSpeed) passes->erase(pass.name);
  }
}

class NpuOptimizer : public tensorflow::grappler::CustomGraphOptimizer {
 public:
  std::string name() const override { return kOptimizerName; }
  bool UsesFunctionLibrary() const override { return true; }

  // A user error is kept and reported when the graph runs: TensorFlow would ignore it here.
  Status Init(const tensorflow::RewriterConfig_CustomGraphOptimizer* config) override {
    user_error_ = ParseParameters(config, &parameters_);
    if (!parameters_.inert.empty()) {
      WarnOnce(absl::StrCat("accepted without effect on stock TensorFlow: ",
                            absl::StrJoin(parameters_.inert, ", ")));
    }
    for (const std::string& line : parameters_.old_names) InformOnce(line);
    warnings_ = parameters_.unknown;
    if (user_error_.ok()) {
      user_error_ = LoadLists(parameters_, &lists_, &warnings_);
    }
    if (user_error_.ok()) {
      user_error_ = LoadCustomDtypes(parameters_, &custom_dtypes_, &warnings_);
    }
    for (const std::string& warning : warnings_) WarnOnce(warning);
    return Status();
  }

  // Grappler runs its whole list of optimizers twice over a graph, with the same objects. Only the
  // first run changes the graph: before the second, the remapper has fused nodes, and the names and
  // marks that decisions depend on are lost. What XLA compiles is rewritten for each caller.
  Status Optimize(Cluster* cluster, const GrapplerItem& item, GraphDef* optimized) override {
    if (decided_ || IsOfCompiledFunction(item)) {
      *optimized = item.graph;
      if (MayFuse(cluster, item.graph)) FuseOps(cluster, item, optimized);
      return Status();
    }
    decided_ = true;
    Status status = user_error_;
    if (status.ok() && HasOrigins(item.graph)) return MarkKept(cluster, item, optimized);
    if (status.ok()) status = RewriteWithCompiled(cluster, item, optimized);
    rewrote_ = status.ok();
    if (status.ok()) return status;
    const std::string text = StatusText(status);
    const bool users = IsUserError(status);
    *optimized = item.graph;
    if (users || parameters_.strict) {
      FailWhenRun(users ? text : absl::StrCat("internal failure (strict is set): ", text),
                  item.NodesToPreserve(), optimized);
      return Status();
    }
    WarnOnce(absl::StrCat(
        "graph '", item.id,
        "' runs unchanged, in its own precision, because of an internal failure: ", text));
    return Status();
  }

#if NPU_PRECISION_HAS_FEEDBACK
  void Feedback(Cluster*, const GrapplerItem&, const GraphDef&, double) override {}
#endif

 private:
  // Offline, bodies were put in place to see what is kept there.
  Status MarkKept(Cluster* cluster, const GrapplerItem& item, GraphDef* optimized) {
    std::vector<std::string> names;
    TF_RETURN_IF_ERROR(KeptByRules(cluster, WithStubs(item), kTriedForKernels, &names));
    const std::set<std::string> kept(names.begin(), names.end());
    *optimized = item.graph;
    for (NodeDef& node : *optimized->mutable_node()) {
      if (kept.count(node.name()) != 0) MarkKeptInPlace(&node);
    }
    return Status();
  }

  // Grappler optimizes each function of the library as an item of its own, but for those that XLA
  // compiles.
  Status RewriteWithCompiled(Cluster* cluster, const GrapplerItem& item, GraphDef* optimized) {
    bool changed;
    const Run run = IsCompiled(item.graph) ? kByXla : kByKernels;
    if (item.graph.library().function_size() == 0) {
      return Rewrite(cluster, item, run, optimized, &changed);
    }
    TF_RETURN_IF_ERROR(Rewrite(cluster, WithStubs(item), run, optimized, &changed));
    *optimized->mutable_library() = item.graph.library();
    const RewriteBody rewrite = [&](const GrapplerItem& body, bool is_trial, GraphDef* out,
                                    bool* changed) {
      return Rewrite(cluster, body, is_trial ? kTriedForXla : kByXla, out, changed);
    };
    if (!parameters_.lower_compiled) return Status();
    const NamesOfKept kept = [&](const GrapplerItem& item, std::vector<std::string>* names) {
      return KeptByRules(cluster, item, kTriedForXla, names);
    };
    TF_RETURN_IF_ERROR(RewriteCompiledFunctions(cluster, rewrite, kept, optimized));
    const Watch watch = FlightStore::Get().watch();
    if (watch == Watch::kNothing || !RunsHere(cluster)) return Status();
    return WatchCompiled(watch, Fetched(item), Fed(item), optimized);
  }

  // The nodes that keep rules keep, by a trial that is not counted.
  Status KeptByRules(Cluster* cluster, const GrapplerItem& item, Run run,
                     std::vector<std::string>* names) {
    GraphDef ignored;
    bool changed;
    Ledger ledger;
    TF_RETURN_IF_ERROR(Rewrite(cluster, item, run, &ignored, &changed, &ledger));
    for (const LedgerNode& node : ledger.nodes) {
      if (KindOf(ReasonFromName(node.reason)) == ReasonKind::kKeepRule) names->push_back(node.name);
    }
    return Status();
  }

  // `tried` gets the ledger of a trial.
  Status Rewrite(Cluster* cluster, const GrapplerItem& item, Run run, GraphDef* optimized,
                 bool* changed, Ledger* tried = nullptr) {
    const bool compiled = run == kByXla || run == kTriedForXla;
    const bool emulates = parameters_.passes.count("emulate") != 0;
    const KernelSupport kernels(HasGpu(cluster), RunsHere(cluster), RunsHereOnly(cluster), emulates,
                                parameters_.for_onednn);
    const XlaSupport xla(HasGpu(cluster));
    const DtypeSupport& support = compiled ? static_cast<const DtypeSupport&>(xla) : kernels;
    DecideContext context = ContextOf(parameters_, lists_, custom_dtypes_, support, item);
    context.compiled = compiled;
    context.keeps_weights = parameters_.passes.count("low_weights") != 0;
    context.is_watched = FlightStore::Get().watch() != Watch::kNothing;
    context.weighs_kernels &= !context.compiled;
    if (context.compiled && emulates && parameters_.saturates) {
      return tensorflow::errors::InvalidArgument(
          "overflow: got 'saturate', which XLA cannot compile, as in the function '", item.id,
          "'; use 'inf', or compile without jit_compile=True");
    }
    Shapes shapes(item);
    context.elements = [&shapes](const std::string& node, int port) {
      return shapes.NumElements(node, port);
    };
    context.shapes = [&shapes](const std::string& node, int port) { return shapes.Of(node, port); };
    PipelineOptions options;
    options.passes = parameters_.passes;
    if (compiled || IsTrial(run)) EraseForSpeed(&options.passes);
    // Rules look past a loop variable that no iteration changes only where this pass has.
    if (tried != nullptr && parameters_.passes.count("hoist_loop_invariants") != 0) {
      options.passes.insert("hoist_loop_invariants");
    }
    options.named = parameters_.named_rewrites;
    options.saturates = parameters_.saturates;
    options.details = IsTrial(run) ? tried != nullptr : !parameters_.report_dir.empty();
    options.check_changed = parameters_.strict;
    PassDump dump(parameters_.dump_passes_dir, item.id);
    if (!parameters_.dump_passes_dir.empty() && !IsTrial(run)) options.observer = &dump;
    std::string report;
    Ledger ledger;
    ledger.graph = item.id;
    if (RunsHere(cluster)) ledger.process = ProcessName();
    ledger.compiled = compiled;
    ledger.options = parameters_.given;
    ledger.warnings = warnings_;
    if (options.passes.count("lower_collectives") != 0 && RunsHere(cluster)) {
      const std::string why_not = WhyCollectivesStay(item.graph);
      if (!why_not.empty()) {
        options.passes.erase("lower_collectives");
        ledger.warnings.push_back(why_not);
      }
    }
    AutocastOptions autocast;
    autocast.only = parameters_.autocast_only;
    autocast.use_mode = [this](tensorflow::DataType dtype, DecideContext* marked) {
      return UseMixedMode(dtype, marked);
    };
    TF_RETURN_IF_ERROR(
        RunWithAutocast(item.graph, context, options, autocast, optimized, &ledger, changed));
    if (IsTrial(run)) {
      if (tried != nullptr) *tried = std::move(ledger);
      return Status();
    }
    if (parameters_.saturates) PlaceSaturationOnCpu(optimized);
    // An entry about the training step does not have to match in the prediction graph.
    for (const std::string& line : ledger.matched) NeverWarn(line);
    for (const std::string& warning : ledger.warnings) WarnOnce(warning);
    for (const LedgerMapping& mapping : ledger.mappings) {
      InformOnce(absl::StrCat(mapping.place, ": ", mapping.entry, " stands for ",
                              mapping.ops.empty() ? "no op type of TensorFlow, so it has no effect"
                                                  : absl::StrJoin(mapping.ops, ", ")));
    }
    const auto& nodes = item.graph.node();
    const bool only_calls = std::any_of(nodes.begin(), nodes.end(), HasCallerMark);
    if (options.details && !only_calls) {
      MeasureCasts(item, *optimized, &ledger);
      TF_RETURN_IF_ERROR(WriteReport(parameters_.report_dir, WorkerSuffix(item.graph), ledger,
                                     item.graph, *optimized, &report));
    }
    if (LowersForSpeed(parameters_.mode.rule)) {
      CountLowered(ledger);
      const bool of_session = item.id == kSessionGraph && !parameters_.autocast_only;
      if (of_session) CountInSession(parameters_.mode.name, ledger.counts);
    }
    // The caller of an offline rewrite has the ledger.
    if (RunsHere(cluster)) Log(ledger, report);
    const bool to_float16 = context.NewDtype() == tensorflow::DT_HALF ||
                            lists_of_marked_.count(tensorflow::DT_HALF) != 0;
    if (to_float16 && ledger.counts.lowered > 0 && !emulates && RunsHere(cluster)) {
      const std::string advice = Float16Advice(*optimized, support);
      if (!advice.empty()) InformOnce(advice);
    }
    return Status();
  }

  // A script for Ascend has the remapper off, because an NPU cannot run what it fuses. The remapper
  // is on if it has fused anything by now.
  bool MayFuse(const Cluster* cluster, const GraphDef& graph) const {
    return rewrote_ && RunsHere(cluster) && LowersForSpeed(parameters_.mode.rule) &&
           parameters_.passes.count("fuse_ops") != 0 && parameters_.passes.count("emulate") == 0 &&
           !HasFusedOps(graph);
  }

  // Sets the mixed mode for nodes that autocast() marked.
  Status UseMixedMode(tensorflow::DataType dtype, DecideContext* context) {
    context->mode = MixedMode(dtype);
    OpLists& lists = lists_of_marked_[dtype];
    context->lists = &lists;
    Parameters parameters = parameters_;
    parameters.mode = context->mode;
    std::vector<std::string> known_warnings;
    return LoadLists(parameters, &lists, &known_warnings);
  }

  void Log(const Ledger& ledger, const std::string& report) {
    if (ledger.counts.float_nodes == 0) return;
    // A program runs many small graphs in which nothing changes.
    const bool changed =
        ledger.counts.lowered > 0 || ledger.counts.raised > 0 || !ledger.rewrites.empty();
    if (!changed && !VLOG_IS_ON(1)) return;
    std::vector<std::string> modes;
    if (!parameters_.autocast_only) modes.push_back(parameters_.mode.name);
    for (const auto& marked : lists_of_marked_) {
      modes.push_back(absl::StrCat("autocast ", DtypeName(marked.first)));
    }
    const std::string line =
        absl::StrCat("npu_precision: graph '", ledger.graph, "' (", absl::StrJoin(modes, ", "),
                     ", ", parameters_.target, ledger.compiled ? ", compiled by XLA" : "",
                     "): ", CountsSentence(CountsOf(ledger)),
                     report.empty() ? "" : absl::StrCat("; ledger: ", report));
    LOG(INFO) << line;
  }

  Parameters parameters_;
  OpLists lists_;
  CustomDtypesFile custom_dtypes_;
  std::map<tensorflow::DataType, OpLists> lists_of_marked_;  // by autocast()
  std::vector<std::string> warnings_;
  Status user_error_;
  bool decided_ = false;
  bool rewrote_ = false;  // with success
};

REGISTER_GRAPH_OPTIMIZER_AS(NpuOptimizer, kOptimizerName);

}  // namespace
}  // namespace npu_precision
