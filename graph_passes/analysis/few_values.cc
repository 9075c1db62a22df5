#include "graph_passes/analysis/few_values.h"

#include <algorithm>
#include <cstring>

#include "graph_passes/graph/float_values.h"
#include "tensorflow/core/framework/numeric_types.h"
#include "tensorflow/core/framework/tensor.h"

namespace npu_precision {
namespace {

constexpr size_t kFew = 4;

// The first few distinct values among size() values.
template <typename Values>
std::vector<float> Different(const Values& all, int64_t size) {
  std::vector<float> different;
  for (int64_t i = 0; i < size; ++i) {
    const float value = static_cast<float>(all[i]);
    // Compares bits: NaN equals itself, and -0 differs from 0.
    const bool is_new = std::none_of(different.begin(), different.end(), [value](float known) {
      return std::memcmp(&known, &value, sizeof(value)) == 0;
    });
    if (!is_new) continue;
    if (different.size() == kFew) return {};
    different.push_back(value);
  }
  return different;
}

template <typename Low>
std::vector<float> DifferentOf(const tensorflow::TensorProto& proto) {
  tensorflow::Tensor tensor;
  if (!tensor.FromProto(proto)) return {};
  return Different(tensor.flat<Low>().data(), tensor.NumElements());
}

}  // namespace

std::vector<float> FewValues(const tensorflow::NodeDef& constant, const ConstantValues& values) {
  const tensorflow::AttrValue* held = values.Find(constant);
  if (held == nullptr) return {};
  FloatValues all;
  if (all.Read(held->tensor())) return Different(all, all.size());
  // An earlier run may have stored them in a low type.
  if (held->tensor().dtype() == tensorflow::DT_HALF)
    return DifferentOf<Eigen::half>(held->tensor());
  if (held->tensor().dtype() == tensorflow::DT_BFLOAT16) {
    return DifferentOf<tensorflow::bfloat16>(held->tensor());
  }
  return {};
}

ValueRange RangeOfConstant(const tensorflow::NodeDef& constant, const ConstantValues& values) {
  ValueRange range = ValueRange::Nothing();
  for (float value : FewValues(constant, values)) {
    if (std::isnan(value)) return ValueRange();
    range = Join(range, ValueRange::Of(value));
  }
  return range.IsNothing() ? ValueRange() : range;
}

bool IsNumber(const tensorflow::NodeDef& constant, const ConstantValues& values) {
  const tensorflow::AttrValue* held = values.Find(constant);
  return held != nullptr &&
         tensorflow::PartialTensorShape(held->tensor().tensor_shape()).num_elements() == 1;
}

}  // namespace npu_precision
