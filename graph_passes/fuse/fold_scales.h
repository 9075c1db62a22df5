// Folds the scale of each channel into the weights of the convolution before it, in float32:
//
//   out = conv(x, w) * s + t   becomes   out = BiasAdd(conv(x, w * s), t)
//
// or, where there is no convolution or its weights are many, writes scale and offset as one op:
//
//   out = x * s + t            becomes   out = FusedBatchNormV3(x, s, t, mean=0, variance=1)
//
// That is a batch norm as Keras 3 writes it in inference, with s = gamma * rsqrt(variance +
// epsilon) and t = beta - mean * s from variables, or any other chain of sums and products with
// vectors. fold_batch_norms does the same where all of these are constants. Here w * s is computed
// in each call, unless low_weights keeps it: else the pass folds only where the weights are few
// beside the result of the convolution. TensorFlow fuses the BiasAdd, and an activation behind it,
// into the kernel of the convolution; it does not fuse a Mul, which would be a pass over the result
// in float32.
//
// Refused: a convolution whose result anything else reads; vectors or weights of unknown shape;
// for float16, a scale that may be huge; a node that the caller fetches or feeds, or whose dtype it
// keeps; and what the mixlist names.
#ifndef NPU_PRECISION_GRAPH_PASSES_FUSE_FOLD_SCALES_H_
#define NPU_PRECISION_GRAPH_PASSES_FUSE_FOLD_SCALES_H_

#include "graph_passes/rewrite/pass_state.h"
#include "tensorflow/core/lib/core/status.h"

namespace npu_precision {

tensorflow::Status FoldScales(PassState* state, bool* changed);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_FUSE_FOLD_SCALES_H_
