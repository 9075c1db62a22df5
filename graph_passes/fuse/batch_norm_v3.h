// Writes FusedBatchNorm as FusedBatchNormV3, which may be lowered: its x and y have a dtype of
// their own, and scale, offset and statistics stay float32.
//
//   bn = FusedBatchNorm(x, scale, offset, mean, variance)
//   dx = FusedBatchNormGrad(dy, x, scale, bn:3, bn:4)
//   becomes  bn = FusedBatchNormV3(x, scale, offset, mean, variance)
//            dx = FusedBatchNormGradV3(dy, x, scale, bn:3, bn:4, bn:5)
//
// The names and the first five outputs stay, and so do the values in float32.
//
// Refused: a node that the caller fetches or feeds, or whose dtype it keeps; lists that differ for
// the two versions, do not know them, or have them black; a device without a kernel for version 3
// in the low type; and a gradient whose forward op does not become version 3, or is not found. The
// forward op is found by the statistics: in training the gradient reads them from the forward op;
// otherwise both read the same statistics and the same x.
#ifndef NPU_PRECISION_GRAPH_PASSES_FUSE_BATCH_NORM_V3_H_
#define NPU_PRECISION_GRAPH_PASSES_FUSE_BATCH_NORM_V3_H_

#include "graph_passes/rewrite/pass_state.h"
#include "tensorflow/core/lib/core/status.h"

namespace npu_precision {

tensorflow::Status WriteBatchNormsAsV3(PassState* state, bool* changed);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_FUSE_BATCH_NORM_V3_H_
