// How a convolution can pad its input by itself, in the place of a Pad before it.
#ifndef NPU_PRECISION_GRAPH_PASSES_FUSE_CONVOLUTION_PADDING_H_
#define NPU_PRECISION_GRAPH_PASSES_FUSE_CONVOLUTION_PADDING_H_

#include <cstdint>
#include <string>
#include <vector>

#include "graph_passes/fuse/fusion_site.h"

namespace npu_precision {

// kSame: by padding SAME, which means these zeros for an image of this size. kExplicit: by padding
// EXPLICIT, which Conv2D has. A depthwise convolution has it too, and ends the process where
// oneDNN runs it.
enum class OwnPadding { kNone, kSame, kExplicit };

// A convolution of images, channels last, and without dilations.
bool IsPlainConvolution(const tensorflow::NodeDef& node);

class ConvolutionPadding {
 public:
  // Both must outlive this object.
  ConvolutionPadding(const GraphView& view, const FusionSite& site) : view_(view), site_(site) {}

  // Whether the node is a Pad or PadV2 that may go, and adds zeros around images alone.
  // `amounts`: what it adds before and after each dimension.
  bool Reads(int pad, std::vector<int64_t>* amounts) const;

  // What one of its consumers can do instead. kNone where it reads anything but its images there,
  // pads otherwise, or belongs to another scope or device; or where the Pad adds as much as the
  // kernel is large, which oneDNN computes slowly.
  OwnPadding Instead(int pad, const std::vector<int64_t>& amounts, const InputPort& consumer) const;

 private:
  // The height and the width of the kernel. False where they are not known.
  bool KernelSize(int convolution, int64_t size[2]) const;

  const GraphView& view_;
  const FusionSite& site_;
};

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_FUSE_CONVOLUTION_PADDING_H_
