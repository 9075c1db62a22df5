// Writes a product of many matrices with the same weights as one MatMul, and moves the Reshape to
// the result's dimensions behind the bias and the residual sum:
//
//   BatchMatMul(x, w)                    becomes  MatMul(Reshape(x), w) -> Reshape
//   Einsum "abc,cde->abde" (x, w)        becomes  MatMul(Reshape(x), Reshape(w)) -> Reshape
//   product -> [Reshape ->] AddV2(bias)  becomes  MatMul -> BiasAdd -> Reshape
//   ... -> AddV2(residual)               becomes  ... BiasAdd -> AddV2(residual) -> Reshape
//   product -> AddN(residual) -> AddV2(bias)      becomes the same
//
// The residual is reshaped too. If one of its sizes is not known, it is added behind the Reshape
// instead. This applies only in the last form, which TensorFlow makes of sums; otherwise the
// residual stays.
//
// The product may also be a MatMul with a Reshape behind it, as tf.tensordot writes it. TensorFlow
// fuses a bias, an activation and a residual into a MatMul, but not into a BatchMatMul or Einsum.
//
// The weights may come from any node, such as the value of a variable, if all their sizes are
// known. Unknown sizes of x, such as the batch, are read when the graph runs. A gradient does not
// read the product, so it stays as it is; it may be such a product itself.
//
// Refused: a transposed x, or weights that differ by batch; an unknown size on which the weights,
// the bias or the residual must agree; nodes with control inputs, of another dtype than float32, of
// several devices, or of several scopes of the user; a node that the caller feeds, or that a file
// of the user names. The bias and the residual stay if another node reads, or depends on, a node
// between them and the product.
#ifndef NPU_PRECISION_GRAPH_PASSES_FUSE_FLATTEN_MAT_MULS_H_
#define NPU_PRECISION_GRAPH_PASSES_FUSE_FLATTEN_MAT_MULS_H_

#include "graph_passes/rewrite/pass_state.h"
#include "tensorflow/core/lib/core/status.h"

namespace npu_precision {

tensorflow::Status FlattenMatMuls(PassState* state, bool* changed);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_FUSE_FLATTEN_MAT_MULS_H_
