// Reads an attention mask that is the same for the whole batch and all heads as a matrix:
//
//   Add(Mul(BatchMatMulV2, scale), mask[1, 1, rows, columns])
//
//   becomes  Add(Mul(BatchMatMulV2, scale), Squeeze(mask, [0, 1]))
//
// This broadcasts to the same sum. TensorFlow fuses scale and mask into the product if the mask has
// four dimensions and the second is 1. oneDNN has a fast kernel for that if the mask has the batch
// of the product or a single row. For the mask above it only has a kernel that computes element by
// element, a hundred times slower than the three ops. TensorFlow fuses it in float32 as well as in
// bfloat16, and also when it serves a converted graph.
//
// Refused: a product that has another rank than 4 or is known to be a batch of one; a mask that is
// not known to have one batch and one head, or is known to have one row; sums that the caller
// feeds, and sums that a user's file names.
#ifndef NPU_PRECISION_GRAPH_PASSES_FUSE_SQUEEZE_MASKS_H_
#define NPU_PRECISION_GRAPH_PASSES_FUSE_SQUEEZE_MASKS_H_

#include "graph_passes/rewrite/pass_state.h"
#include "tensorflow/core/lib/core/status.h"

namespace npu_precision {

tensorflow::Status SqueezeMasks(PassState* state, bool* changed);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_FUSE_SQUEEZE_MASKS_H_
