// Folds inference batch norms into the convolutions before them, in float32, before lowering:
//
//   bn = FusedBatchNorm(conv(x, w) [+ bias], scale, offset, mean, variance)
//   becomes  bn = BiasAdd(conv(x, w * s), offset + (bias - mean) * s)
//   with     s = scale / sqrt(variance + epsilon)
//
// The convolution's weights are then rounded once, after the scaling. Without this pass, the low
// type would round the result of the convolution, and then the result of the batch norm. TensorFlow
// can fuse the BiasAdd, and an activation behind it, into the low-precision kernel.
//
// Refused: weights or statistics that are not constants; weights with another reader; a convolution
// with another reader than the batch norm; a batch norm whose other outputs are read; a node that
// the caller fetches or feeds, or whose dtype it keeps; a node that the mixlist has black; and a
// folded value that would not fit the low type.
#ifndef NPU_PRECISION_GRAPH_PASSES_FUSE_FOLD_BATCH_NORMS_H_
#define NPU_PRECISION_GRAPH_PASSES_FUSE_FOLD_BATCH_NORMS_H_

#include "graph_passes/rewrite/pass_state.h"
#include "tensorflow/core/lib/core/status.h"

namespace npu_precision {

tensorflow::Status FoldBatchNorms(PassState* state, bool* changed);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_FUSE_FOLD_BATCH_NORMS_H_
