#include "graph_passes/decide/slow_kernels.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include "graph_passes/graph/op_set.h"
#include "tensorflow/core/framework/attr_value.pb.h"
#include "tensorflow/core/framework/tensor_shape.h"

namespace npu_precision {
namespace {

constexpr int64_t kVector = 16;
constexpr int kRank = 4, kChannels = 3;
constexpr char kOfInput[] = "DepthwiseConv2dNativeBackpropInput";

bool IsFusedNorm(const std::string& op) {
  return op == "FusedBatchNormV2" || op == "FusedBatchNormV3" || op == "FusedBatchNormGradV2" ||
         op == "FusedBatchNormGradV3";
}

bool MayBeSlow(const std::string& op) { return IsFusedNorm(op) || op == kOfInput; }

bool HasChannelsLast(const tensorflow::NodeDef& node) {
  const auto format = node.attr().find("data_format");
  return format == node.attr().end() || format->second.s() == "NHWC";
}

bool HasStrides(const tensorflow::NodeDef& node) {
  const auto strides = node.attr().find("strides");
  if (strides == node.attr().end()) return false;
  const auto& sizes = strides->second.list().i();
  return std::any_of(sizes.begin(), sizes.end(), [](int64_t size) { return size > 1; });
}

// 0 if it is not known.
int64_t Channels(const TensorShapes& shapes, const tensorflow::NodeDef& node) {
  if (!shapes) return 0;
  const tensorflow::PartialTensorShape shape = shapes(node.name(), 0);
  return shape.dims() == kRank ? std::max<int64_t>(shape.dim_size(kChannels), 0) : 0;
}

bool IsSlow(const tensorflow::NodeDef& node, const TensorShapes& shapes) {
  if (!HasChannelsLast(node)) return false;
  if (node.op() == kOfInput) return HasStrides(node);
  return Channels(shapes, node) % kVector != 0;
}

}  // namespace

std::vector<KeptGroup> SlowKernels(const GraphView& view, const DecideContext& context) {
  std::vector<KeptGroup> keeps;
  if (context.NewDtype() != tensorflow::DT_BFLOAT16) return keeps;
  for (int id : OpSet(view, MayBeSlow).Ids()) {
    const tensorflow::NodeDef& node = view.node(id);
    if (!IsSlow(node, context.shapes)) continue;
    if (!context.support->HasOneDnn(node, tensorflow::DT_BFLOAT16)) continue;
    for (int g = 0; g < view.num_groups(id); ++g) {
      keeps.push_back({view.first_group(id) + g, Reason::kSlowKernel});
    }
  }
  return keeps;
}

}  // namespace npu_precision
