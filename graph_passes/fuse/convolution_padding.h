// Determines whether a convolution can pad its input by itself, so that the Pad before it can go.
#ifndef NPU_PRECISION_GRAPH_PASSES_FUSE_CONVOLUTION_PADDING_H_
#define NPU_PRECISION_GRAPH_PASSES_FUSE_CONVOLUTION_PADDING_H_

#include <cstdint>
#include <string>
#include <vector>

#include "graph_passes/fuse/fusion_site.h"

namespace npu_precision {

// kSame: by padding SAME, which adds the same zeros for an image of this size. kExplicit: by
// padding EXPLICIT, which only Conv2D supports safely: a depthwise convolution has it, but crashes
// the process if oneDNN runs it.
enum class OwnPadding { kNone, kSame, kExplicit };

// A convolution of images with channels last and without dilations.
bool IsPlainConvolution(const tensorflow::NodeDef& node);

class ConvolutionPadding {
 public:
  // Both must outlive this object.
  ConvolutionPadding(const GraphView& view, const FusionSite& site) : view_(view), site_(site) {}

  // Whether the node is a Pad or PadV2 that may be removed, and only adds zeros around images.
  // `amounts`: the zeros that it adds before and after each dimension.
  bool Reads(int pad, std::vector<int64_t>* amounts) const;

  // The padding that a consumer of the Pad can use instead. kNone if the consumer reads the Pad at
  // another input than its images, already pads, or belongs to another scope or device. Also kNone
  // if the Pad adds as much as the size of the kernel, which oneDNN computes slowly.
  OwnPadding Instead(int pad, const std::vector<int64_t>& amounts, const InputPort& consumer) const;

 private:
  // The height and width of the kernel. Returns false if they are not known.
  bool KernelSize(int convolution, int64_t size[2]) const;

  const GraphView& view_;
  const FusionSite& site_;
};

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_FUSE_CONVOLUTION_PADDING_H_
