// Folds inference batch norms into the convolutions before them, in float32, ahead of lowering:
//
//   bn = FusedBatchNorm(conv(x, w) [+ bias], scale, offset, mean, variance)
//   becomes  bn = BiasAdd(conv(x, w * s), offset + (bias - mean) * s)
//   with     s = scale / sqrt(variance + epsilon)
//
// The convolution's weights are then rounded once, after the scaling, where the low type would
// round the convolution's result, and again what the batch norm makes of it. TensorFlow can fuse
// the BiasAdd, and an activation behind it, into the low-precision kernel.
//
// Refused: where the weights or the statistics are not constants, or the weights have another
// reader; where something else reads the convolution, or the batch norm's other outputs; where the
// caller fetches, feeds or keeps the dtype of a node; where the mixlist has one of them black; and
// where a folded value would not fit the low type.
#ifndef NPU_PRECISION_GRAPH_PASSES_FUSE_FOLD_BATCH_NORMS_H_
#define NPU_PRECISION_GRAPH_PASSES_FUSE_FOLD_BATCH_NORMS_H_

#include "graph_passes/rewrite/pass_state.h"
#include "tensorflow/core/lib/core/status.h"

namespace npu_precision {

tensorflow::Status FoldBatchNorms(PassState* state, bool* changed);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_FUSE_FOLD_BATCH_NORMS_H_
