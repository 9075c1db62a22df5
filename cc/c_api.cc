// C functions for Python's ctypes. They make the optimizer's checks before a run, and return its
// facts and counts.
#include "cc/c_api.h"

#include <cstdlib>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "cc/collective_agreement.h"
#include "cc/error_op.h"
#include "cc/flight_store.h"
#include "cc/inert_parameters.h"
#include "cc/kept_casts.h"
#include "cc/lowered_so_far.h"
#include "cc/parameters.h"
#include "cc/rewrites_option.h"
#include "cc/saturate_op.h"
#include "cc/target_listing.h"
#include "cc/targets.h"
#include "cc/tf_compat.h"
#include "graph_passes/counts_json.h"
#include "graph_passes/decide/decision.h"
#include "graph_passes/decide/precision_mode.h"
#include "graph_passes/decide/reasons.h"
#include "graph_passes/decide/rule_table.h"
#include "graph_passes/graph/dtype_names.h"
#include "graph_passes/graph/marks.h"
#include "graph_passes/ledger.h"
#include "graph_passes/lists/file_format.h"
#include "graph_passes/lists/lint_custom_dtypes.h"
#include "graph_passes/lists/lint_mixlist.h"
#include "graph_passes/lists/lint_ops_info.h"
#include "graph_passes/pass_table.h"
#include "graph_passes/rewrite/changed_graph.h"
#include "include/json/json.h"
#include "tensorflow/core/lib/core/errors.h"
#include "tensorflow/core/protobuf/rewriter_config.pb.h"

namespace npu_precision {
namespace {

tensorflow::Status CheckOptions(const std::string& serialized) {
  tensorflow::RewriterConfig_CustomGraphOptimizer config;
  if (!config.ParseFromString(serialized)) {
    return tensorflow::errors::InvalidArgument(
        "expected a serialized RewriterConfig.CustomGraphOptimizer");
  }
  Parameters parameters;
  TF_RETURN_IF_ERROR(ParseParameters(&config, &parameters));
  OpLists lists;
  std::vector<std::string> warnings;
  TF_RETURN_IF_ERROR(LoadLists(parameters, &lists, &warnings));
  CustomDtypesFile custom_dtypes;
  return LoadCustomDtypes(parameters, &custom_dtypes, &warnings);
}

Json::Value FindingJson(const LintFinding& finding) {
  Json::Value value(Json::objectValue);
  value["severity"] = SeverityName(finding.severity);
  value["rule"] = finding.rule;
  value["place"] = finding.place;
  value["text"] = finding.text;
  value["fixable"] = finding.fixable;
  value["replacement"] = finding.replacement;
  value["begin"] = Json::UInt64(finding.begin);
  value["end"] = Json::UInt64(finding.end);
  value["previous_end"] = Json::UInt64(finding.previous_end);
  return value;
}

LintFinding Error(const char* rule, const std::string& place, const std::string& text) {
  LintFinding finding;
  finding.severity = Severity::kError;
  finding.rule = rule;
  finding.place = place;
  finding.text = text;
  return finding;
}

// Converts an error "FILE: what" or "FILE:LINE:COLUMN: what" to a finding.
LintFinding OfStatus(const std::string& file, const tensorflow::Status& status) {
  const std::string what = StatusText(status);
  const size_t colon =
      what.compare(0, file.size(), file) == 0 ? what.find(": ", file.size()) : std::string::npos;
  const bool has_place = colon != std::string::npos;
  return Error("structure", has_place ? what.substr(0, colon) : file,
               has_place ? what.substr(colon + 2) : what);
}

Json::Value EntryJson(const MixlistEntry& entry) {
  Json::Value value(Json::objectValue);
  value["list"] = MixlistKey(entry.list);
  value["add"] = entry.add;
  value["text"] = entry.text;
  value["place"] = entry.place;
  return value;
}

// Lints `text`, the content of the mixlist that `config` names. The mode of `config` says which
// lists the mixlist edits.
tensorflow::Status LintText(tensorflow::RewriterConfig_CustomGraphOptimizer config,
                            const std::string& text, std::vector<MixlistEntry>* entries,
                            std::vector<LintFinding>* findings) {
  const std::string given = config.parameter_map().at("modify_mixlist").s();
  const bool is_itself = IsMixlistItself(given);
  const std::string file = is_itself ? "modify_mixlist" : given;
  const JsonPlaces places = is_itself ? JsonPlaces::kKeys : JsonPlaces::kLines;
  config.mutable_parameter_map()->erase("modify_mixlist");
  Parameters parameters;
  TF_RETURN_IF_ERROR(ParseParameters(&config, &parameters));
  OpLists target;
  std::vector<std::string> of_ops_info;  // linted by itself
  TF_RETURN_IF_ERROR(LoadTargetLists(parameters, &target, &of_ops_info));
  const tensorflow::Status read =
      LintMixlist(file, text, BuiltInIrNames(), target, findings, places);
  if (read.ok()) {
    std::vector<MixlistProblem> problems;  // They are among the findings.
    TF_RETURN_IF_ERROR(ReadMixlist(file, text, BuiltInIrNames(), entries, &problems, places));
  } else {
    findings->push_back(OfStatus(file, read));
  }
  parameters.modify_mixlist = file;
  const tensorflow::Status used = CheckUsesLists(parameters);
  if (!used.ok()) findings->push_back(Error("inert-option", file, StatusText(used)));
  return tensorflow::Status();
}

Json::Value Names(const std::vector<std::string>& names) {
  Json::Value list(Json::arrayValue);
  for (const std::string& name : names) list.append(name);
  return list;
}

}  // namespace
}  // namespace npu_precision

// Checks `size` bytes of a CustomGraphOptimizer. Returns nullptr if the optimizer would accept
// them, else the message with which it would fail the run. Release it with NpuPrecisionFree.
NPU_PRECISION_EXPORT char* NpuPrecisionCheckOptions(const char* data, size_t size) {
  const tensorflow::Status status = npu_precision::CheckOptions(std::string(data, size));
  return status.ok() ? nullptr : npu_precision::NewString(npu_precision::StatusText(status));
}

// Returns nullptr if the name is of a precision mode, older or newer, else an error message.
// Release it with NpuPrecisionFree.
NPU_PRECISION_EXPORT char* NpuPrecisionCheckMode(const char* name) {
  const tensorflow::Status status = npu_precision::CheckModeOfEitherName(name);
  return status.ok() ? nullptr : npu_precision::NewString(npu_precision::StatusText(status));
}

// Lints a mixlist. `data` has the bytes of a CustomGraphOptimizer, whose parameter modify_mixlist
// names a file; `text` is the content of that file. Returns JSON: {"error": ...}, or
// {"entries": [...], "findings": [...]}. Release it with NpuPrecisionFree.
NPU_PRECISION_EXPORT char* NpuPrecisionLintMixlist(const char* data, size_t size, const char* text,
                                                   size_t text_size) {
  tensorflow::RewriterConfig_CustomGraphOptimizer config;
  Json::Value root(Json::objectValue);
  std::vector<npu_precision::MixlistEntry> entries;
  std::vector<npu_precision::LintFinding> findings;
  if (!config.ParseFromString(std::string(data, size)) ||
      config.parameter_map().count("modify_mixlist") == 0) {
    root["error"] = "expected a serialized CustomGraphOptimizer with modify_mixlist";
  } else {
    const tensorflow::Status status =
        npu_precision::LintText(config, std::string(text, text_size), &entries, &findings);
    if (!status.ok()) root["error"] = npu_precision::StatusText(status);
  }
  root["entries"] = Json::Value(Json::arrayValue);
  for (const auto& entry : entries) root["entries"].append(npu_precision::EntryJson(entry));
  root["findings"] = Json::Value(Json::arrayValue);
  for (const auto& finding : findings) {
    root["findings"].append(npu_precision::FindingJson(finding));
  }
  return npu_precision::NewString(Json::writeString(Json::StreamWriterBuilder(), root));
}

// Lints `text`, the content of the customize_dtypes file `file`. Returns JSON: a list of findings.
// Release it with NpuPrecisionFree.
NPU_PRECISION_EXPORT char* NpuPrecisionLintCustomDtypes(const char* file, const char* text,
                                                        size_t text_size) {
  Json::Value root(Json::arrayValue);
  for (const auto& finding : npu_precision::LintCustomDtypes(file, std::string(text, text_size),
                                                             npu_precision::BuiltInIrNames())) {
    root.append(npu_precision::FindingJson(finding));
  }
  return npu_precision::NewString(Json::writeString(Json::StreamWriterBuilder(), root));
}

// Which of the files that users write a text is, by name; see FileFormatName(). Release it with
// NpuPrecisionFree.
NPU_PRECISION_EXPORT char* NpuPrecisionFileFormat(const char* text, size_t size) {
  return npu_precision::NewString(npu_precision::FileFormatName(
      npu_precision::DetectFormat(std::string(text, size), npu_precision::BuiltInIrNames())));
}

// Lints `text`, the content of the ops-info file `file`. Returns JSON: a list of findings. Release
// it with NpuPrecisionFree.
NPU_PRECISION_EXPORT char* NpuPrecisionLintOpsInfo(const char* file, const char* text,
                                                   size_t text_size) {
  std::vector<npu_precision::LintFinding> findings;
  const tensorflow::Status status = npu_precision::LintOpsInfo(
      file, std::string(text, text_size), npu_precision::BuiltInIrNames(), &findings);
  if (!status.ok()) findings.push_back(npu_precision::OfStatus(file, status));
  Json::Value root(Json::arrayValue);
  for (const auto& finding : findings) root.append(npu_precision::FindingJson(finding));
  return npu_precision::NewString(Json::writeString(Json::StreamWriterBuilder(), root));
}

// Returns JSON with the built-in lists of a target: {"error": ...}, or the result of ListingJson().
// Release it with NpuPrecisionFree.
NPU_PRECISION_EXPORT char* NpuPrecisionLists(const char* target) {
  Json::Value root(Json::objectValue);
  const tensorflow::Status status = npu_precision::CheckTarget(target);
  if (status.ok()) {
    root = npu_precision::ListingJson(target);
  } else {
    root["error"] = npu_precision::StatusText(status);
  }
  return npu_precision::NewString(Json::writeString(Json::StreamWriterBuilder(), root));
}

// Counts entries of ledgers: JSON that CountsFromJson reads. Returns JSON: {"error": ...}, or
// {"totals": the result of CountsJson, "sentence": ...}. Release it with NpuPrecisionFree.
NPU_PRECISION_EXPORT char* NpuPrecisionCount(const char* entries, size_t size) {
  Json::Value root, given;
  std::istringstream stream(std::string(entries, size));
  std::string problem;
  if (Json::parseFromStream(Json::CharReaderBuilder(), stream, &given, &problem)) {
    const npu_precision::Counts counts = npu_precision::CountsFromJson(given);
    root["totals"] = npu_precision::CountsJson(counts);
    root["sentence"] = npu_precision::CountsSentence(counts);
  } else {
    root["error"] = problem;
  }
  return npu_precision::NewString(Json::writeString(Json::StreamWriterBuilder(), root));
}

// Returns JSON: the names that Python shares with the optimizer. They are its own name, modes,
// targets, parameters, rules, passes, reasons, decisions, marks on nodes, and Ascend's names for
// ops. Release it with NpuPrecisionFree.
NPU_PRECISION_EXPORT char* NpuPrecisionDescribe() {
  Json::Value root(Json::objectValue);
  root["modes"] = npu_precision::Names(npu_precision::PrecisionModeNames());
  root["modes_v2"] = npu_precision::Names(npu_precision::PrecisionModeV2Names());
  root["modes_for_speed"] = npu_precision::Names(npu_precision::PrecisionModesForSpeed());
  for (const auto& mode : npu_precision::MixedModes()) {
    root["mixed_modes"][mode.first] = npu_precision::DtypeName(mode.second);
  }
  for (const auto dtype : {tensorflow::DT_BFLOAT16, tensorflow::DT_HALF}) {
    root["mixed_mode_of"][npu_precision::DtypeName(dtype)] = npu_precision::MixedMode(dtype).name;
  }
  root["targets"] = npu_precision::Names(npu_precision::TargetNames());
  root["float16_computes"] = npu_precision::Names(npu_precision::Float16ComputeNames());
  root["inert_parameters"] = npu_precision::Names(npu_precision::InertParameters());
  root["reasons"] = Json::Value(Json::arrayValue);
  for (const auto& reason : npu_precision::Reasons()) {
    Json::Value row(Json::objectValue);
    row["word"] = reason.word;
    row["kind"] = npu_precision::ReasonKindName(reason.kind);
    row["sentence"] = reason.sentence;
    root["reasons"].append(row);
  }
  root["ascend_ops"] = Json::Value(Json::arrayValue);
  for (const auto& entry : npu_precision::BuiltInIrNames()) root["ascend_ops"].append(entry.first);
  root["parameters"] = Json::Value(Json::objectValue);
  for (const auto& parameter : npu_precision::KnownParameters()) {
    root["parameters"][parameter.name] = std::string(1, parameter.type);
  }
  root["optimizer"] = npu_precision::kOptimizerName;
  root["error_op"] = npu_precision::kErrorOp;
  root["ledger_schema"] = npu_precision::kLedgerSchema;
  root["renamed_suffix"] = npu_precision::kRenamedSuffix;
  for (const auto& mark : npu_precision::MarkNames()) root["marks"][mark.first] = mark.second;
  for (const auto verdict : {npu_precision::Verdict::kLowered, npu_precision::Verdict::kRaised,
                             npu_precision::Verdict::kKept}) {
    root["decisions"].append(npu_precision::VerdictName(verdict));
  }
  root["rules"] = Json::Value(Json::arrayValue);
  for (const auto& rule : npu_precision::DecideRules()) {
    Json::Value row(Json::objectValue);
    row["name"] = rule.name;
    row["because"] = rule.because;
    root["rules"].append(row);
  }
  root["old_rewrite_keys"] = Json::Value(Json::objectValue);
  for (const auto& key : npu_precision::OldRewriteKeys()) {
    root["old_rewrite_keys"][key.first] = key.second;
  }
  root["passes"] = Json::Value(Json::arrayValue);
  for (const auto& pass : npu_precision::Passes()) {
    Json::Value row(Json::objectValue);
    row["name"] = pass.name;
    row["summary"] = pass.summary;
    row["because"] = pass.because;
    row["purpose"] = npu_precision::PurposeName(pass.purpose);
    root["passes"].append(row);
  }
  return npu_precision::NewString(Json::writeString(Json::StreamWriterBuilder(), root));
}

// The agreement of the workers: 0, they were not asked; 1, to lower; 2, to keep float32.
NPU_PRECISION_EXPORT void NpuPrecisionSetCollectiveAgreement(int agreement) {
  npu_precision::SetCollectiveAgreement(static_cast<npu_precision::CollectiveAgreement>(agreement));
}

// Whether this machine adds up tensors of that dtype, a DataType: 1 or 0.
NPU_PRECISION_EXPORT int NpuPrecisionCanReduce(int dtype, int has_gpu) {
  return npu_precision::CanReduce(static_cast<tensorflow::DataType>(dtype), has_gpu != 0) ? 1 : 0;
}

// Whether a value saturated in this process since the last call by anyone: 1 or 0.
NPU_PRECISION_EXPORT int NpuPrecisionTakeOverflow() {
  return npu_precision::TakeOverflow() ? 1 : 0;
}

// Returns JSON: by the name of a node, the number of values that saturated in it since the last
// call. Release it with NpuPrecisionFree.
NPU_PRECISION_EXPORT char* NpuPrecisionTakeSaturations() {
  Json::Value root(Json::objectValue);
  for (const auto& node : npu_precision::TakeSaturations()) {
    root[node.first] = Json::Int64(node.second);
  }
  return npu_precision::NewString(Json::writeString(Json::StreamWriterBuilder(), root));
}

// From now on, graphs that are prepared to run are watched. `watch` is 1, lowered tensors, or 2,
// all floats; `selection` is JSON with the members of FlightSelection.
NPU_PRECISION_EXPORT void NpuPrecisionOpenFlight(int watch, const char* selection) {
  Json::Value given;
  std::istringstream stream(selection);
  Json::parseFromStream(Json::CharReaderBuilder(), stream, &given, nullptr);
  npu_precision::FlightSelection read;
  read.first = given["first"].asInt64();
  read.last = given["last"].asInt64();
  read.every_n_steps = given["every_n_steps"].asInt();
  for (const Json::Value& scope : given["scopes"]) read.scopes.push_back(scope.asString());
  read.statistics = given["statistics"].asBool();
  read.stops = given["stops"].asBool();
  for (const std::string& graph : given["before"].getMemberNames()) {
    read.before[std::stoi(graph)] = given["before"][graph].asInt64();
  }
  npu_precision::FlightStore::Get().Open(static_cast<npu_precision::Watch>(watch), std::move(read));
}

NPU_PRECISION_EXPORT void NpuPrecisionCloseFlight() { npu_precision::FlightStore::Get().Close(); }

// Returns JSON: the result of FlightStore::Drain(). `all` is 1 to include steps that may still be
// running. Release it with NpuPrecisionFree.
NPU_PRECISION_EXPORT char* NpuPrecisionDrainFlight(int all) {
  return npu_precision::NewString(Json::writeString(
      Json::StreamWriterBuilder(), npu_precision::FlightStore::Get().Drain(all != 0)));
}

// Returns JSON: the shared copies of weights in a low type, their bytes, and how many were
// made so far. Release it with NpuPrecisionFree.
NPU_PRECISION_EXPORT char* NpuPrecisionKeptCasts() {
  const npu_precision::KeptCasts count = npu_precision::CountKeptCasts();
  Json::Value root(Json::objectValue);
  root["kept"] = Json::Int64(count.kept);
  root["bytes"] = Json::Int64(count.bytes);
  root["made"] = Json::Int64(count.made);
  return npu_precision::NewString(Json::writeString(Json::StreamWriterBuilder(), root));
}

NPU_PRECISION_EXPORT void NpuPrecisionFree(char* text) { std::free(text); }

// Counts the float nodes of the graphs optimized in this process whose mode lowers for speed, and
// how many of them were lowered.
NPU_PRECISION_EXPORT void NpuPrecisionLoweredSoFar(int64_t* float_nodes, int64_t* lowered) {
  const npu_precision::LoweredSoFar so_far = npu_precision::GetLoweredSoFar();
  *float_nodes = so_far.float_nodes;
  *lowered = so_far.lowered;
}

// Returns a JSON array of lines about modes that have lowered nothing in the sessions of this
// process. Release it with
// NpuPrecisionFree.
NPU_PRECISION_EXPORT char* NpuPrecisionIdleModes() {
  Json::Value lines(Json::arrayValue);
  for (const std::string& line : npu_precision::IdleModes()) lines.append(line);
  return npu_precision::NewString(Json::writeString(Json::StreamWriterBuilder(), lines));
}
