// Writes a product of many matrices with the same weights as one MatMul, and moves the Reshape that
// makes its dimensions behind the bias, and behind a residual sum:
//
//   BatchMatMul(x, w)                    becomes  MatMul(Reshape(x), w) -> Reshape
//   Einsum "abc,cde->abde" (x, w)        becomes  MatMul(Reshape(x), Reshape(w)) -> Reshape
//   product -> [Reshape ->] AddV2(bias)  becomes  MatMul -> BiasAdd -> Reshape
//   ... -> AddV2(residual)               becomes  ... BiasAdd -> AddV2(residual) -> Reshape
//   product -> AddN(residual) -> AddV2(bias)      becomes the same
//
// The residual is reshaped too. Where one of its sizes is not known, it is added behind the Reshape
// in the last form, which TensorFlow makes of sums, and stays where it is otherwise.
//
// The product may also be a MatMul with a Reshape behind it, as tf.tensordot writes it. TensorFlow
// fuses a bias, an activation and a residual into a MatMul, and none into a BatchMatMul or Einsum.
//
// The weights may be of any node, a variable's value for example, if all their sizes are known.
// Sizes of x that are not known, such as the batch, are read when the graph runs. A gradient does
// not read the product, so it stays as it is; in its turn it may be such a product itself.
//
// Refused: where x is transposed, or the weights differ by batch; where a size is not known that
// the weights, the bias or the residual have to agree on; nodes with control inputs, of another
// dtype than float32, of several devices, or of several scopes of the user; a node that the caller
// feeds, or that a file of the user names. The bias and the residual stay where another node reads,
// or depends on, what stands between them and the product.
#ifndef NPU_PRECISION_GRAPH_PASSES_FUSE_FLATTEN_MAT_MULS_H_
#define NPU_PRECISION_GRAPH_PASSES_FUSE_FLATTEN_MAT_MULS_H_

#include "graph_passes/rewrite/pass_state.h"
#include "tensorflow/core/lib/core/status.h"

namespace npu_precision {

tensorflow::Status FlattenMatMuls(PassState* state, bool* changed);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_FUSE_FLATTEN_MAT_MULS_H_
