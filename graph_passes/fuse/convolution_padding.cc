#include "graph_passes/fuse/convolution_padding.h"

#include <algorithm>

#include "graph_passes/graph/low_types.h"
#include "graph_passes/graph/node_attributes.h"
#include "tensorflow/core/framework/attr_value.pb.h"

namespace npu_precision {
namespace {

using tensorflow::AttrValue;
using tensorflow::NodeDef;
using tensorflow::PartialTensorShape;

// Dimensions of [batch, height, width, channels].
constexpr int kRank = 4, kHeight = 1, kImageDimensions = 2;

const AttrValue& Attr(const NodeDef& node, const char* name) {
  static const auto* none = new AttrValue();
  const auto found = node.attr().find(name);
  return found == node.attr().end() ? *none : found->second;
}

bool HasFloats(const NodeDef& node) {
  const tensorflow::DataType type = Attr(node, "T").type();
  return type == tensorflow::DT_FLOAT || IsLowType(type);
}

// The zeros that padding SAME adds before and after a dimension of `size`.
void SameAmounts(int64_t size, int64_t kernel, int64_t stride, int64_t* before, int64_t* after) {
  const int64_t outputs = (size + stride - 1) / stride;
  const int64_t total = std::max<int64_t>((outputs - 1) * stride + kernel - size, 0);
  *before = total / 2;
  *after = total - *before;
}

}  // namespace

bool IsPlainConvolution(const NodeDef& node) {
  if (node.op() != "Conv2D" && node.op() != "DepthwiseConv2dNative") return false;
  const auto& dilations = Attr(node, "dilations").list().i();
  return HasFloats(node) && HasChannelsLast(node) &&
         Attr(node, "strides").list().i_size() == kRank &&
         std::all_of(dilations.begin(), dilations.end(), [](int64_t one) { return one == 1; });
}

bool ConvolutionPadding::Reads(int pad, std::vector<int64_t>* amounts) const {
  const std::string& op = view_.node(pad).op();
  if (op != "Pad" && op != "PadV2") return false;
  double value = 0.0;
  if (op == "PadV2" && (!site_.Number(view_.fanin(pad)[2], &value) || value != 0.0)) return false;
  if (!site_.MayVanish(pad) || !site_.Integers(view_.fanin(pad)[1], amounts)) return false;
  // Two numbers for each dimension; they are 0 for batch and channels.
  if (amounts->size() != 2 * kRank) return false;
  for (size_t i = 0; i < amounts->size(); ++i) {
    const bool is_of_image = i / 2 >= kHeight && i / 2 < kHeight + kImageDimensions;
    if ((*amounts)[i] < 0 || ((*amounts)[i] > 0 && !is_of_image)) return false;
  }
  return true;
}

OwnPadding ConvolutionPadding::Instead(int pad, const std::vector<int64_t>& amounts,
                                       const InputPort& consumer) const {
  const int id = consumer.node;
  const NodeDef& node = view_.node(id);
  if (view_.op_def(id) == nullptr || consumer.index != 0 || !IsPlainConvolution(node) ||
      Attr(node, "padding").s() != "VALID" || !site_.MayChange(id) || !site_.AreAlike(pad, id)) {
    return OwnPadding::kNone;
  }
  int64_t kernel[kImageDimensions];
  if (!KernelSize(id, kernel)) return OwnPadding::kNone;
  const PartialTensorShape image = site_.Shape(view_.fanin(pad)[0]);
  bool is_same = image.dims() == kRank;
  for (int k = 0; k < kImageDimensions; ++k) {
    const int dimension = kHeight + k;
    const int64_t before = amounts[2 * dimension], after = amounts[2 * dimension + 1];
    if (std::max(before, after) >= kernel[k]) return OwnPadding::kNone;
    if (!is_same) continue;
    const int64_t size = image.dim_size(dimension);
    int64_t same_before = 0, same_after = 0;
    if (size > 0) {
      SameAmounts(size, kernel[k], Attr(node, "strides").list().i(dimension), &same_before,
                  &same_after);
    }
    is_same = size > 0 && before == same_before && after == same_after;
  }
  return is_same ? OwnPadding::kSame : OwnPadding::kExplicit;
}

bool ConvolutionPadding::KernelSize(int convolution, int64_t size[2]) const {
  const PartialTensorShape shape = site_.Shape(view_.fanin(convolution)[1]);
  if (shape.dims() != kRank) return false;
  for (int k = 0; k < kImageDimensions; ++k) size[k] = shape.dim_size(k);
  return size[0] > 0 && size[1] > 0;
}

}  // namespace npu_precision
