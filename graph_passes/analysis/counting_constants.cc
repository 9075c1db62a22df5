#include "graph_passes/analysis/counting_constants.h"

#include <algorithm>
#include <cmath>

#include "graph_passes/graph/float_values.h"
#include "graph_passes/graph/low_types.h"
#include "tensorflow/core/framework/tensor_shape.h"

namespace npu_precision {
namespace {

constexpr int64_t kLeastSteps = 16;
// Learned values are not equal steps by chance, so a few are enough where the low type loses them.
constexpr int64_t kLeastCoarseSteps = 4;
// The share of a step that a value may be off in float32, and that the low type's spacing may be:
// what is added to a count is mostly smaller than a step.
constexpr double kExact = 1e-2, kFine = 1.0 / 4;

// Of the values at begin, begin + stride, begin + 2 * stride, ...
Counting CountsOfLine(const FloatValues& values, int64_t begin, int64_t count, int64_t stride,
                      tensorflow::DataType low_type) {
  const double first = values[begin];
  const double step = (values[begin + (count - 1) * stride] - first) / (count - 1);
  if (step == 0 || !std::isfinite(step)) return Counting::kNo;
  for (int64_t i = 0; i < count; ++i) {
    const double value = values[begin + i * stride];
    if (!(std::fabs(first + i * step - value) <= kExact * std::fabs(step))) return Counting::kNo;
  }
  const double last = first + (count - 1) * step;
  const double spacing = SpacingAt(low_type, std::max(std::fabs(first), std::fabs(last)));
  return spacing > kFine * std::fabs(step) ? Counting::kCoarsely : Counting::kFinely;
}

}  // namespace

Counting CountsOf(const tensorflow::NodeDef& constant, const ConstantValues& values,
                  tensorflow::DataType low_type) {
  const tensorflow::AttrValue* held = values.Find(constant);
  FloatValues all;
  if (held == nullptr || !all.Read(held->tensor())) return Counting::kNo;
  const tensorflow::PartialTensorShape shape(held->tensor().tensor_shape());
  int64_t stride = all.size();
  Counting counts = Counting::kNo;
  for (int dim = 0; dim < shape.dims() && stride > 0; ++dim) {
    const int64_t count = shape.dim_size(dim);
    stride /= std::max<int64_t>(count, 1);
    if (count <= kLeastCoarseSteps) continue;
    const Counting first = CountsOfLine(all, 0, count, stride, low_type);
    if (first == Counting::kNo || (first == Counting::kFinely && count < kLeastSteps)) continue;
    const int64_t begin_of_last = all.size() - 1 - (count - 1) * stride;
    counts = std::max({counts, first, CountsOfLine(all, begin_of_last, count, stride, low_type)});
  }
  return counts;
}

}  // namespace npu_precision
