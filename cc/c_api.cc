// C functions for Python's ctypes: the same checks that the optimizer makes, before a run.
#include <cstdlib>
#include <cstring>
#include <string>

#include "cc/inert_parameters.h"
#include "cc/parameters.h"
#include "cc/targets.h"
#include "cc/tf_compat.h"
#include "graph_passes/decision.h"
#include "include/json/json.h"
#include "tensorflow/core/protobuf/rewriter_config.pb.h"

#define NPU_PRECISION_EXPORT extern "C" __attribute__((visibility("default")))

namespace npu_precision {
namespace {

char* NewString(const std::string& text) {
  char* copy = static_cast<char*>(std::malloc(text.size() + 1));
  if (copy != nullptr) std::memcpy(copy, text.c_str(), text.size() + 1);
  return copy;
}

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
  return LoadLists(parameters, &lists, &warnings);
}

Json::Value Names(const std::vector<std::string>& names) {
  Json::Value list(Json::arrayValue);
  for (const std::string& name : names) list.append(name);
  return list;
}

}  // namespace
}  // namespace npu_precision

// nullptr when the optimizer would accept these `size` bytes of a CustomGraphOptimizer, else the
// message it would fail the run with, to be released with NpuPrecisionFree.
NPU_PRECISION_EXPORT char* NpuPrecisionCheckOptions(const char* data, size_t size) {
  const tensorflow::Status status = npu_precision::CheckOptions(std::string(data, size));
  return status.ok() ? nullptr : npu_precision::NewString(npu_precision::StatusText(status));
}

// JSON: the modes, targets, parameters, reasons and Ascend's names for ops there are. To be
// released with NpuPrecisionFree.
NPU_PRECISION_EXPORT char* NpuPrecisionDescribe() {
  Json::Value root(Json::objectValue);
  root["modes"] = npu_precision::Names(npu_precision::PrecisionModeNames());
  root["modes_v2"] = npu_precision::Names(npu_precision::PrecisionModeV2Names());
  root["targets"] = npu_precision::Names(npu_precision::TargetNames());
  root["inert_parameters"] = npu_precision::Names(npu_precision::InertParameters());
  root["reasons"] = npu_precision::Names(npu_precision::ReasonNames());
  root["ascend_ops"] = Json::Value(Json::arrayValue);
  for (const auto& entry : npu_precision::BuiltInIrNames()) root["ascend_ops"].append(entry.first);
  root["parameters"] = Json::Value(Json::objectValue);
  for (const auto& parameter : npu_precision::KnownParameters()) {
    root["parameters"][parameter.name] = std::string(1, parameter.type);
  }
  return npu_precision::NewString(Json::writeString(Json::StreamWriterBuilder(), root));
}

NPU_PRECISION_EXPORT void NpuPrecisionFree(char* text) { std::free(text); }
