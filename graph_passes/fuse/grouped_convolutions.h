// Writes a depthwise convolution as a grouped Conv2D if TensorFlow fuses more ops into that:
//
//   DepthwiseConv2dNative(x, filter [h, w, channels, multiplier])
//   becomes  Conv2D(x, filter [h, w, 1, channels * multiplier])
//
// The sums are the same. The pass applies in two cases. A Swish or LeakyRelu follows the bias of
// the convolution, which TensorFlow fuses into Conv2D only. Or a Pad comes before it that the
// convolution could replace by its own padding, but not by padding SAME: pad_into_convolutions.h
// then replaces the Pad. In other cases nothing is gained.
//
// Refused: a graph that is not known to run with oneDNN: without oneDNN, TensorFlow's kernels for
// this are slow, and its fused one fails; a filter that is not a constant; dilations; channels
// first; nodes in between that the caller fetches or feeds, that have another consumer or a control
// dependency; and nodes that keep float32 by their scope, or that a user's file names.
#ifndef NPU_PRECISION_GRAPH_PASSES_FUSE_GROUPED_CONVOLUTIONS_H_
#define NPU_PRECISION_GRAPH_PASSES_FUSE_GROUPED_CONVOLUTIONS_H_

#include "graph_passes/rewrite/pass_state.h"
#include "tensorflow/core/lib/core/status.h"

namespace npu_precision {

tensorflow::Status GroupDepthwiseConvolutions(PassState* state, bool* changed);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_FUSE_GROUPED_CONVOLUTIONS_H_
