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

// 0 if it is not known. The output of a node that was part of a fused one has no shape.
int64_t Channels(const GraphView& view, const TensorShapes& shapes, int id) {
  if (!shapes || view.num_fanin(id) == 0) return 0;
  for (const OutputPort& tensor : {OutputPort{id, 0}, view.fanin(id)[0]}) {
    const tensorflow::PartialTensorShape shape = shapes(view.node(tensor.node).name(), tensor.port);
    if (shape.dims() == kRank && shape.dim_size(kChannels) > 0) return shape.dim_size(kChannels);
  }
  return 0;
}

bool IsSlow(const GraphView& view, const TensorShapes& shapes, int id) {
  if (!HasChannelsLast(view.node(id))) return false;
  if (view.node(id).op() == kOfInput) return HasStrides(view.node(id));
  return Channels(view, shapes, id) % kVector != 0;
}

}  // namespace

std::vector<KeptGroup> SlowKernels(const GraphView& view, const DecideContext& context) {
  std::vector<KeptGroup> keeps;
  if (context.NewDtype() != tensorflow::DT_BFLOAT16) return keeps;
  for (int id : OpSet(view, MayBeSlow).Ids()) {
    if (!IsSlow(view, context.shapes, id)) continue;
    if (!context.support->HasOneDnn(view.node(id), tensorflow::DT_BFLOAT16)) continue;
    for (int g = 0; g < view.num_groups(id); ++g) {
      keeps.push_back({view.first_group(id) + g, Reason::kSlowKernel});
    }
  }
  return keeps;
}

}  // namespace npu_precision
