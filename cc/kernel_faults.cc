#include "cc/kernel_faults.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "tensorflow/core/framework/attr_value.pb.h"

namespace npu_precision {
namespace {

using tensorflow::NodeDef;
using tensorflow::PartialTensorShape;

const tensorflow::AttrValue& AttrOf(const NodeDef& node, const char* name) {
  static const auto* none = new tensorflow::AttrValue();
  const auto attr = node.attr().find(name);
  return attr == node.attr().end() ? *none : attr->second;
}

bool IsDilated(const NodeDef& node) {
  const auto& dilations = AttrOf(node, "dilations").list().i();
  return std::any_of(dilations.begin(), dilations.end(),
                     [](int64_t dilation) { return dilation > 1; });
}

// Whether it is a max pool, or the gradient of one, whose window has 256 places or more. In
// bfloat16, oneDNN's gradient of such a pool goes to wrong places; with 255 it is right.
bool HasLargeWindow(const NodeDef& node) {
  if (!absl::StartsWith(node.op(), "MaxPool")) return false;
  int64_t places = 1;
  for (const int64_t size : AttrOf(node, "ksize").list().i()) places *= size;
  return places > 255;
}

bool IsDepthwise(const NodeDef& node) { return node.op() == "DepthwiseConv2dNative"; }
bool IsConvolution(const NodeDef& node) { return node.op() == "Conv2D"; }
bool IsFilterGradient(const NodeDef& node) { return node.op() == "Conv2DBackpropFilter"; }
bool IsFilterGradient3D(const NodeDef& node) { return node.op() == "Conv3DBackpropFilterV2"; }

bool HasChannelsFirst(const NodeDef& node) {
  return absl::StartsWith(AttrOf(node, "data_format").s(), "NC");
}

int64_t ChannelsOf(const NodeDef& node, const PartialTensorShape& image) {
  return image.dim_size(HasChannelsFirst(node) ? 1 : image.dims() - 1);
}

// With the oneDNN of TensorFlow 2.19 and 2.21 and wide images, a depthwise convolution with a
// filter wider than this never returns; nor does a Conv2D that is one.
constexpr int kWidestFilter = 14;

bool NeverReturns(const NodeDef& node, const NodeShapes& shapes) {
  const PartialTensorShape &image = shapes.inputs[0], &filter = shapes.inputs[1];
  if (filter.dims() != 4 || filter.dim_size(1) <= kWidestFilter) return false;
  if (IsDepthwise(node)) return true;
  return filter.dim_size(2) == 1 && filter.dim_size(3) > 1 && image.dims() == 4 &&
         ChannelsOf(node, image) == filter.dim_size(3);
}

// With dilations, the gradient of a filter is garbage, or the process ends, if there are more than
// 16 channels that are no multiple of 16, or groups.
bool HasOddChannels(const NodeDef& node, const NodeShapes& shapes) {
  const PartialTensorShape &image = shapes.inputs[0], &filter = shapes.output;
  if (image.dims() != 4) return false;
  const int64_t channels = ChannelsOf(node, image);
  if (channels < 0) return false;
  const bool has_groups =
      filter.dims() == 4 && filter.dim_size(2) > 0 && filter.dim_size(2) != channels;
  return has_groups || (channels > 16 && channels % 16 != 0);
}

// The gradient of a filter that is longer than the image, which padding SAME allows, is garbage, or
// the process ends.
bool IsLongerThanImage(const NodeDef& node, const NodeShapes& shapes) {
  const PartialTensorShape &image = shapes.inputs[0], &filter = shapes.output;
  if (image.dims() != 5 || filter.dims() != 5) return false;
  const int depth = HasChannelsFirst(node) ? 2 : 1;
  for (int k = 0; k < 3; ++k) {
    const int64_t size = image.dim_size(depth + k);
    if (size > 0 && filter.dim_size(k) > size) return true;
  }
  return false;
}

}  // namespace

bool ComputesIn(const NodeDef& node, tensorflow::DataType dtype) {
  return AttrOf(node, "T").type() == dtype;
}

bool IsFusedByTensorFlow(const NodeDef& node) {
  return absl::StartsWith(node.op(), "_Fused") || absl::StartsWith(node.op(), "_Mkl");
}

// For channels first, and for the gradients of dilated convolutions, float32 has oneDNN's kernels
// instead, but float16 has none. Newer TensorFlows also register fused ops in float16, which run
// only on a processor with avx512_fp16. There, TensorFlow 2.21 computes an Einsum like
// "...x,...xy->...y" wrongly.
bool FailsOnCpu(const NodeDef& node) {
  if (ComputesIn(node, tensorflow::DT_BFLOAT16)) return HasLargeWindow(node);
  if (!ComputesIn(node, tensorflow::DT_HALF)) return false;
  if (IsFusedByTensorFlow(node)) return true;
  if (absl::StrContains(AttrOf(node, "equation").s(), "...")) return true;
  if (HasChannelsFirst(node)) return true;
  return absl::StrContains(node.op(), "Backprop") && IsDilated(node);
}

bool MayFailOnCpu(const NodeDef& node) {
  return IsDepthwise(node) || IsConvolution(node) || (IsFilterGradient(node) && IsDilated(node)) ||
         (IsFilterGradient3D(node) && AttrOf(node, "padding").s() == "SAME");
}

bool FailsOnCpu(const NodeDef& node, const NodeShapes& shapes) {
  if (!ComputesIn(node, tensorflow::DT_BFLOAT16)) return false;
  if (IsDepthwise(node) || IsConvolution(node)) return NeverReturns(node, shapes);
  return IsFilterGradient(node) ? HasOddChannels(node, shapes) : IsLongerThanImage(node, shapes);
}

}  // namespace npu_precision
