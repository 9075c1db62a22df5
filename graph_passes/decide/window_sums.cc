#include "graph_passes/decide/window_sums.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include "graph_passes/graph/op_set.h"
#include "tensorflow/core/framework/attr_value.pb.h"

namespace npu_precision {
namespace {

constexpr int64_t kManyWindows = 32;

constexpr int64_t kManyPlaces = 512, kManyPlacesInBfloat16 = 64;

bool PoolsMeans(const std::string& op) { return op == "AvgPool" || op == "AvgPool3D"; }

bool SpreadsWindows(const std::string& op) { return op == "AvgPoolGrad" || op == "AvgPool3DGrad"; }

std::vector<int64_t> Numbers(const tensorflow::NodeDef& node, const char* attr) {
  const auto found = node.attr().find(attr);
  if (found == node.attr().end()) return {};
  const auto& numbers = found->second.list().i();
  return std::vector<int64_t>(numbers.begin(), numbers.end());
}

// The number of windows that a place is in.
int64_t Overlapping(const tensorflow::NodeDef& node) {
  const std::vector<int64_t> sizes = Numbers(node, "ksize"), strides = Numbers(node, "strides");
  int64_t windows = 1;
  for (size_t k = 0; k < std::min(sizes.size(), strides.size()); ++k) {
    if (strides[k] > 0) windows *= (sizes[k] + strides[k] - 1) / strides[k];
  }
  return windows;
}

int64_t Places(const tensorflow::NodeDef& node) {
  int64_t places = 1;
  for (int64_t size : Numbers(node, "ksize")) places *= size;
  return places;
}

}  // namespace

std::vector<KeptGroup> WindowSums(const GraphView& view, const DecideContext& context) {
  std::vector<KeptGroup> keeps;
  const auto keep = [&](int id) {
    for (int g = 0; g < view.num_groups(id); ++g) {
      keeps.push_back({view.first_group(id) + g, Reason::kAddsWindows});
    }
  };
  for (int id : OpSet(view, SpreadsWindows).Ids()) {
    if (Overlapping(view.node(id)) > kManyWindows) keep(id);
  }
  const tensorflow::DataType low = context.NewDtype();
  const int64_t most = low == tensorflow::DT_BFLOAT16 ? kManyPlacesInBfloat16 : kManyPlaces;
  for (int id : OpSet(view, PoolsMeans).Ids()) {
    const tensorflow::NodeDef& node = view.node(id);
    if (Places(node) > most && !context.support->HasOneDnn(node, low)) keep(id);
  }
  return keeps;
}

}  // namespace npu_precision
