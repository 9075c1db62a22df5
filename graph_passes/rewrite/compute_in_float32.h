// Computes float16 nodes in float32 on a device that only emulates float16, and rounds the values
// to float16. An accelerator does the same: it reads float16 and adds in float32. It treats the
// bfloat16 nodes in the same way whose kernels truncate their results, so that Casts round them.
// decide/compute_dtypes.h decides which nodes those are, and where they are rounded.
//
// Before: x -> Cast -> MatMul(float16) -> BiasAdd(float16) -> Relu(float16) -> MatMul(float16).
// After: x -> Cast -> Cast -> MatMul(float32) -> BiasAdd(float32) -> Relu(float32) -> Cast -> Cast
// -> MatMul(float32), where each pair of Casts goes through float16 and back.
//
// A constant that only a Cast reads gets rounded values instead, and the Cast then changes nothing.
// A tensor whose values are of the low type already needs no Casts.
//
// The nodes keep the marks of their decisions, and get a mark that names the float32 type groups.
// restore_float16 undoes the changes, so that a later run decides about the graph in the low type.
#ifndef NPU_PRECISION_GRAPH_PASSES_REWRITE_COMPUTE_IN_FLOAT32_H_
#define NPU_PRECISION_GRAPH_PASSES_REWRITE_COMPUTE_IN_FLOAT32_H_

#include "graph_passes/rewrite/pass_state.h"
#include "tensorflow/core/lib/core/status.h"

namespace npu_precision {

tensorflow::Status ComputeInFloat32(PassState* state, bool* changed);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_REWRITE_COMPUTE_IN_FLOAT32_H_
