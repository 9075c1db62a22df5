// A depthwise convolution becomes a grouped one where TensorFlow fuses more into that:
//
//   DepthwiseConv2dNative(x, filter [h, w, channels, multiplier])
//   becomes  Conv2D(x, filter [h, w, 1, channels * multiplier])
//
// The sums are the same. It is written where a Swish or LeakyRelu follows the bias of the
// convolution, which TensorFlow fuses into Conv2D alone; and where a Pad before it goes if the
// convolution pads by itself, and padding SAME does not say how: pad_into_convolutions.h takes it
// from there. Elsewhere nothing is gained.
//
// Refused: where oneDNN does not run the graph, or nobody knows what will: without it TensorFlow
// has slow kernels for this, and its fused one fails; where the filter is not a constant;
// dilations; channels first; nodes in between that the caller fetches or feeds, that have another
// consumer or a control dependency; and nodes that keep float32 by their scope, or that a user's
// file names.
#ifndef NPU_PRECISION_GRAPH_PASSES_FUSE_GROUPED_CONVOLUTIONS_H_
#define NPU_PRECISION_GRAPH_PASSES_FUSE_GROUPED_CONVOLUTIONS_H_

#include "graph_passes/rewrite/pass_state.h"
#include "tensorflow/core/lib/core/status.h"

namespace npu_precision {

tensorflow::Status GroupDepthwiseConvolutions(PassState* state, bool* changed);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_FUSE_GROUPED_CONVOLUTIONS_H_
