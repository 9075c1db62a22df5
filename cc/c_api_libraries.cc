// C functions for Python about a graph with its whole library of functions. The optimizer sees one
// body at a time.
#include <cstdlib>
#include <set>
#include <sstream>
#include <string>
#include <utility>

#include "cc/c_api.h"
#include "cc/parameters.h"
#include "graph_passes/analysis/body_facts.h"
#include "graph_passes/decide/precision_mode.h"
#include "graph_passes/graph/marks.h"
#include "graph_passes/rewrite/call_boundaries.h"
#include "include/json/json.h"
#include "tensorflow/core/protobuf/rewriter_config.pb.h"

namespace npu_precision {
namespace {

// The functions and nodes that keep their dtypes. In the request they are JSON:
// {"known": [FUNCTION, ...], "kept": [[FUNCTION, NODE], ...]}.
struct Fixed {
  std::set<std::string> known;
  std::set<std::pair<std::string, std::string>> kept;
};

bool ReadFixed(const std::string& text, Fixed* fixed) {
  Json::Value root;
  std::istringstream stream(text);
  if (!Json::parseFromStream(Json::CharReaderBuilder(), stream, &root, nullptr)) return false;
  for (const auto& name : root["known"]) fixed->known.insert(name.asString());
  for (const auto& pair : root["kept"]) {
    fixed->kept.emplace(pair[0].asString(), pair[1].asString());
  }
  return true;
}

}  // namespace
}  // namespace npu_precision

// Returns JSON: the facts about the functions of a graph, a serialized GraphDef, as marks.
// "roles" has the role of each function by its name, "choices" a list of nodes: "body", "node" and
// "paths", input and output by turns; "read", by the body of a While, the results that the
// condition reads, each its place and how; "fit_in_place", the functions that FitsInPlace.
// ReadFixed reads `fixed_text`. Returns nullptr if the graph cannot be read. Release it with
// NpuPrecisionFree.
NPU_PRECISION_EXPORT char* NpuPrecisionBodyFacts(const char* graph, size_t graph_size,
                                                 const char* fixed_text) {
  tensorflow::GraphDef graph_def;
  npu_precision::Fixed fixed;
  if (!npu_precision::ReadFixed(fixed_text, &fixed) ||
      !graph_def.ParseFromArray(graph, static_cast<int>(graph_size))) {
    return nullptr;
  }
  const npu_precision::BodyFacts facts = npu_precision::FindBodyFacts(graph_def, fixed.known);
  Json::Value root;
  root["roles"] = Json::Value(Json::objectValue);
  for (const auto& role : facts.roles) {
    root["roles"][role.first] = npu_precision::BodyRoleName(role.second);
  }
  root["choices"] = Json::Value(Json::arrayValue);
  for (const auto& choice : facts.choices) {
    Json::Value value(Json::objectValue);
    value["body"] = choice.body;
    value["node"] = choice.node;
    value["paths"] = Json::Value(Json::arrayValue);
    for (const auto& path : choice.paths) {
      value["paths"].append(path.first);
      value["paths"].append(path.second);
    }
    root["choices"].append(value);
  }
  root["fit_in_place"] = Json::Value(Json::arrayValue);
  for (const auto& body : facts.in_place) {
    if (npu_precision::FitsInPlace(facts, body.first)) root["fit_in_place"].append(body.first);
  }
  root["read"] = Json::Value(Json::objectValue);
  for (const auto& body : facts.read) {
    Json::Value& value = root["read"][body.first] = Json::Value(Json::arrayValue);
    for (const npu_precision::ReadByCondition& each : body.second) {
      value.append(each.place);
      value.append(static_cast<int>(each.as));
    }
  }
  return npu_precision::NewString(Json::writeString(Json::StreamWriterBuilder(), root));
}

// Runs the pass call_boundaries over a graph and its library, if the parameters in `data`, a
// CustomGraphOptimizer, ask for it. ReadFixed reads `fixed_text`. Returns JSON, a list of rewrites,
// or nullptr if nothing changed. If anything changed, `result` and `result_size` get the new
// GraphDef. Release both with NpuPrecisionFree.
NPU_PRECISION_EXPORT char* NpuPrecisionCallBoundaries(const char* data, size_t size,
                                                      const char* graph, size_t graph_size,
                                                      const char* fixed_text, char** result,
                                                      size_t* result_size) {
  tensorflow::RewriterConfig_CustomGraphOptimizer config;
  npu_precision::Parameters parameters;
  tensorflow::GraphDef graph_def;
  npu_precision::Fixed fixed;
  if (!config.ParseFromString(std::string(data, size)) ||
      !npu_precision::ParseParameters(&config, &parameters).ok() ||
      parameters.passes.count("call_boundaries") == 0 || parameters.passes.count("emulate") != 0 ||
      !npu_precision::LowersForSpeed(parameters.mode.rule) ||
      !npu_precision::ReadFixed(fixed_text, &fixed) ||
      !graph_def.ParseFromArray(graph, static_cast<int>(graph_size))) {
    return nullptr;
  }
  const auto rewrites = npu_precision::MoveCastsOutOfCalls(
      fixed.known, fixed.kept, parameters.passes.count("hoist_loop_invariants") != 0, &graph_def);
  if (rewrites.empty()) return nullptr;
  *result_size = graph_def.ByteSizeLong();
  *result = static_cast<char*>(std::malloc(*result_size));
  if (*result == nullptr || !graph_def.SerializeToArray(*result, static_cast<int>(*result_size))) {
    std::free(*result);
    return nullptr;
  }
  Json::Value root(Json::arrayValue);
  for (const auto& rewrite : rewrites) {
    Json::Value value(Json::objectValue);
    value["body"] = rewrite.first;
    value["by"] = rewrite.second.by;
    value["node"] = rewrite.second.node;
    value["before"] = rewrite.second.before;
    value["after"] = rewrite.second.after;
    root.append(value);
  }
  return npu_precision::NewString(Json::writeString(Json::StreamWriterBuilder(), root));
}
