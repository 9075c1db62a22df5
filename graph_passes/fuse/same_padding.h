// Writes padding SAME instead of VALID for convolutions with a kernel of 1x1, for which they are
// the same.
//
// TensorFlow fuses a residual Add, and the activation behind it, into the low-precision convolution
// before it. It does so only if it can infer that both operands of the Add have one shape. With an
// unknown batch or image size it can infer that for SAME, whose output is as large as its input,
// but not for VALID.
#ifndef NPU_PRECISION_GRAPH_PASSES_FUSE_SAME_PADDING_H_
#define NPU_PRECISION_GRAPH_PASSES_FUSE_SAME_PADDING_H_

#include "graph_passes/rewrite/pass_state.h"
#include "tensorflow/core/lib/core/status.h"

namespace npu_precision {

// Applies to the convolutions of a low type whose kernels are constants.
tensorflow::Status WriteSamePadding(PassState* state, bool* changed);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_FUSE_SAME_PADDING_H_
