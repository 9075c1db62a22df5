// Computes in float32 what is of float16 on a device that only emulates float16: rounds the values
// to it, as an accelerator does, which reads float16 and adds in float32. Which nodes those are,
// and where they are rounded, is decided in decide/compute_dtypes.h.
//
// Before: x -> Cast -> MatMul(float16) -> BiasAdd(float16) -> Relu(float16) -> MatMul(float16).
// After: x -> Cast -> Cast -> MatMul(float32) -> BiasAdd(float32) -> Relu(float32) -> Cast -> Cast
// -> MatMul(float32), where each pair of Casts goes through float16 and back.
//
// A constant that only a Cast reads holds rounded values instead, and the Cast changes nothing any
// more; nor does the Cast of a tensor whose values are of float16 already.
//
// The nodes keep the marks of their decisions, and get one that says which type groups are float32:
// restore_float16 undoes it all, so that a later run decides about the graph in float16.
#ifndef NPU_PRECISION_GRAPH_PASSES_REWRITE_COMPUTE_IN_FLOAT32_H_
#define NPU_PRECISION_GRAPH_PASSES_REWRITE_COMPUTE_IN_FLOAT32_H_

#include "graph_passes/rewrite/pass_state.h"
#include "tensorflow/core/lib/core/status.h"

namespace npu_precision {

tensorflow::Status ComputeInFloat32(PassState* state, bool* changed);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_REWRITE_COMPUTE_IN_FLOAT32_H_
