// Casts weights to the low type once, and not again before they change.
//
//   w = ReadVariableOp(h)
//   low = Cast(w)                 becomes   low = NpuPrecisionKeptCast(w)
//   low = Cast(Mul(w, scale))     becomes   low = NpuPrecisionKeptCast(w, scale)
//
// The second form is what fold_scales writes. The op compares the buffer of w, and the values of
// the scale, with those of the last call (cc/kept_casts.h). An update by our own op (fused_updates)
// writes the copy in its sweep.
//
// Refused: variables of TensorFlow 1's old kind, which are written in place whoever reads them;
// what is fed; graphs with InplaceUpdate and its kin; and the second form under a recorder.
#ifndef NPU_PRECISION_GRAPH_PASSES_FUSE_LOW_WEIGHTS_H_
#define NPU_PRECISION_GRAPH_PASSES_FUSE_LOW_WEIGHTS_H_

#include "graph_passes/rewrite/pass_state.h"
#include "tensorflow/core/lib/core/status.h"

namespace npu_precision {

tensorflow::Status KeepLowWeights(PassState* state, bool* changed);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_FUSE_LOW_WEIGHTS_H_
