// Writes an activation function behind a product and its bias in the form that TensorFlow's
// remapper fuses into the product:
//
//   dense = BiasAdd(MatMul(a, w), b), y = 0.5 * dense * Erfc(-dense / sqrt(2))
//   becomes  y = (0.5 * dense) * (1 + Erf(sqrt(0.5) * dense)), one _FusedMatMul for TensorFlow
//
// Behind a MatMul: GELU, exact and by tanh; a Reshape of the sum moves behind it. Behind a Conv2D:
// Swish, HardSwish and Mish. A bias that an AddV2 adds, a vector or one row, moves to a BiasAdd.
// The fused kernel computes in float32 inside. So the pass marks ops that are black only for the
// error of their own kernels (Square, Softplus).
//
// Refused: activations that TensorFlow would not fuse, because there is no product, because another
// node reads a node in between, as gradients do, or has a control dependency on it, or because the
// caller fetches or feeds it; nodes that a file of the user names; nodes of several devices or
// dtypes; and dtypes other than float32 and bfloat16, for which TensorFlow has no such kernels.
#ifndef NPU_PRECISION_GRAPH_PASSES_FUSE_ACTIVATIONS_H_
#define NPU_PRECISION_GRAPH_PASSES_FUSE_ACTIVATIONS_H_

#include "graph_passes/rewrite/pass_state.h"
#include "tensorflow/core/lib/core/status.h"

namespace npu_precision {

tensorflow::Status WriteActivations(PassState* state, bool* changed);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_FUSE_ACTIVATIONS_H_
