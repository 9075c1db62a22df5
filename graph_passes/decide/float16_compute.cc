#include "graph_passes/decide/float16_compute.h"

#include "absl/strings/str_join.h"
#include "graph_passes/graph/quoted.h"
#include "graph_passes/lists/did_you_mean.h"
#include "tensorflow/core/lib/core/errors.h"

namespace npu_precision {
namespace {

struct Name {
  const char* name;
  Float16Compute compute;
};

constexpr Name kNames[] = {{"auto", Float16Compute::kAuto},
                           {"native", Float16Compute::kNative},
                           {"float32", Float16Compute::kFloat32}};

}  // namespace

std::vector<std::string> Float16ComputeNames() {
  std::vector<std::string> names;
  for (const Name& name : kNames) names.push_back(name.name);
  return names;
}

tensorflow::Status ParseFloat16Compute(const std::string& name, Float16Compute* compute) {
  for (const Name& known : kNames) {
    if (known.name != name) continue;
    *compute = known.compute;
    return tensorflow::Status();
  }
  const std::vector<std::string> names = Float16ComputeNames();
  return tensorflow::errors::InvalidArgument("float16_compute: got ", Quoted(name),
                                             ", expected one of ", absl::StrJoin(names, ", "),
                                             DidYouMean(name, names));
}

}  // namespace npu_precision
