// Writes a batch norm in training, and its gradient, as FusedBatchNormV3 and FusedBatchNormGradV3,
// if they are written as single ops: see trained_norm_form.h. In a low type, these read and yield
// what convolutions do, and add in float32.
//
// The other readers of the mean, the variance, dgamma and dbeta get them from the fused ops, so the
// moving averages and the updates of gamma and beta stay as they are. The variance of the fused
// op is that of n - 1 places; it is multiplied by (n - 1) / n.
//
// Refused: a norm whose gradient has another form; nodes that the caller names, fetches or feeds;
// gamma or beta that comes from the norm's own statistics.
#ifndef NPU_PRECISION_GRAPH_PASSES_FUSE_TRAINED_NORMS_H_
#define NPU_PRECISION_GRAPH_PASSES_FUSE_TRAINED_NORMS_H_

#include "graph_passes/rewrite/pass_state.h"
#include "tensorflow/core/lib/core/status.h"

namespace npu_precision {

tensorflow::Status WriteTrainedNorms(PassState* state, bool* changed);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_FUSE_TRAINED_NORMS_H_
