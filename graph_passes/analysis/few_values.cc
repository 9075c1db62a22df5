#include "graph_passes/analysis/few_values.h"

#include <algorithm>
#include <cstring>

#include "graph_passes/graph/float_values.h"

namespace npu_precision {
namespace {

constexpr size_t kFew = 4;
// Of constants with more elements and more than a few values, the range is not looked for.
constexpr int64_t kShort = 1024;

bool Read(const tensorflow::NodeDef& constant, const ConstantValues& values, FloatValues* read) {
  const tensorflow::AttrValue* value = values.Find(constant);
  return value != nullptr && read->Read(value->tensor());
}

}  // namespace

std::vector<float> FewValues(const tensorflow::NodeDef& constant, const ConstantValues& values) {
  FloatValues all;
  if (!Read(constant, values, &all)) return {};
  std::vector<float> different;
  for (int64_t i = 0; i < all.size(); ++i) {
    const float value = all[i];
    // By their bits: NaN equals itself, and -0 is not 0.
    const bool is_new = std::none_of(different.begin(), different.end(), [value](float known) {
      return std::memcmp(&known, &value, sizeof(value)) == 0;
    });
    if (!is_new) continue;
    if (different.size() == kFew) return {};
    different.push_back(value);
  }
  return different;
}

ValueRange RangeOfConstant(const tensorflow::NodeDef& constant, const ConstantValues& values) {
  ValueRange range = ValueRange::Nothing();
  const auto add = [&range](float value) {
    range = std::isnan(value) ? ValueRange() : Join(range, ValueRange::Of(value));
  };
  for (float value : FewValues(constant, values)) add(value);
  FloatValues all;
  if (range.IsNothing() && Read(constant, values, &all) && all.size() <= kShort) {
    for (int64_t i = 0; i < all.size(); ++i) add(all[i]);
  }
  return range.IsNothing() ? ValueRange() : range;
}

}  // namespace npu_precision
