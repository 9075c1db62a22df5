// Writes an activation function behind a product and its bias in the form that TensorFlow's
// remapper fuses into the product, whatever form it has:
//
//   dense = BiasAdd(MatMul(a, w), b), y = 0.5 * dense * Erfc(-dense / sqrt(2))
//   becomes  y = (0.5 * dense) * (1 + Erf(sqrt(0.5) * dense)), one _FusedMatMul for TensorFlow
//
// Behind a MatMul: GELU, exact and by tanh; a Reshape of the sum then stands behind it. Behind a
// Conv2D: Swish, HardSwish and Mish. A bias that an AddV2 adds, a vector or one row, becomes that
// of a BiasAdd. The fused kernel computes in float32 inside; so ops are marked that are black for
// the error of their own kernels (Square, Softplus).
//
// Refused: where TensorFlow would not fuse it, because something else reads a node in between, as
// gradients do, or has a control dependency on it, or the caller fetches or feeds it, or there is
// no product; where a file of the user names one of the nodes; nodes of several devices or dtypes;
// and dtypes other than float32 and bfloat16, for which TensorFlow has no such kernels.
#ifndef NPU_PRECISION_GRAPH_PASSES_FUSE_ACTIVATIONS_H_
#define NPU_PRECISION_GRAPH_PASSES_FUSE_ACTIVATIONS_H_

#include "graph_passes/rewrite/pass_state.h"
#include "tensorflow/core/lib/core/status.h"

namespace npu_precision {

tensorflow::Status WriteActivations(PassState* state, bool* changed);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_FUSE_ACTIVATIONS_H_
