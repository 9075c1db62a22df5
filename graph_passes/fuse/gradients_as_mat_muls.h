// Writes the gradients of a 1x1 convolution as the matrix products that they are:
//
//   Conv2DBackpropFilter(x, [1, 1, C, K], dy)  becomes
//   Reshape(MatMul(Reshape(x, [-1, C]), Reshape(dy, [-1, K]), transpose_a=true), [1, 1, C, K])
//
//   Conv2DBackpropInput(sizes, filter, dy)  becomes
//   Reshape(MatMul(Reshape(dy, [-1, K]), Reshape(filter, [-1, K]), transpose_b=true), sizes)
//
// oneDNN's convolution in bfloat16 writes images and filters in layouts of its own before it
// begins. For small images this takes longer than the product; for large ones its layouts pay.
//
// Refused: float32 and float16; strides, explicit padding, groups and channels first; images that
// are large, or whose height or width is unknown; a node that keeps its dtype by its scope; and
// what a user's file names, or has one of both ops in another list.
#ifndef NPU_PRECISION_GRAPH_PASSES_FUSE_GRADIENTS_AS_MAT_MULS_H_
#define NPU_PRECISION_GRAPH_PASSES_FUSE_GRADIENTS_AS_MAT_MULS_H_

#include "graph_passes/rewrite/pass_state.h"
#include "tensorflow/core/lib/core/status.h"

namespace npu_precision {

tensorflow::Status WriteGradientsAsMatMuls(PassState* state, bool* changed);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_FUSE_GRADIENTS_AS_MAT_MULS_H_
