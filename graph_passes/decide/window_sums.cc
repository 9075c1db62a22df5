#include "graph_passes/decide/window_sums.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include "graph_passes/graph/op_set.h"
#include "tensorflow/core/framework/attr_value.pb.h"

namespace npu_precision {
namespace {

constexpr int64_t kManyWindows = 32;

bool SpreadsWindows(const std::string& op) { return op == "AvgPoolGrad" || op == "AvgPool3DGrad"; }

// The number of windows that a place is in.
int64_t Overlapping(const tensorflow::NodeDef& node) {
  const auto size = node.attr().find("ksize"), stride = node.attr().find("strides");
  if (size == node.attr().end() || stride == node.attr().end()) return 0;
  const auto &sizes = size->second.list().i(), &strides = stride->second.list().i();
  int64_t windows = 1;
  for (int k = 0; k < std::min(sizes.size(), strides.size()); ++k) {
    if (strides[k] > 0) windows *= (sizes[k] + strides[k] - 1) / strides[k];
  }
  return windows;
}

}  // namespace

std::vector<KeptGroup> WindowSums(const GraphView& view) {
  std::vector<KeptGroup> keeps;
  for (int id : OpSet(view, SpreadsWindows).Ids()) {
    if (Overlapping(view.node(id)) <= kManyWindows) continue;
    for (int g = 0; g < view.num_groups(id); ++g) {
      keeps.push_back({view.first_group(id) + g, Reason::kAddsWindows});
    }
  }
  return keeps;
}

}  // namespace npu_precision
