// Computes in float32 what is to be of a low type, and rounds the values to it instead: what a
// device with kernels for the low type would yield can be seen on one without them.
//
// Before: x -> Cast -> MatMul(float16) -> Relu(float16) -> Cast -> Exp.
// After: x -> Cast -> Cast -> MatMul(float32) -> Cast -> Cast -> Relu(float32) -> ... -> Exp, where
// each pair of Casts goes through float16 and back.
//
// Exact for an op of one rounding, as Eigen's elementwise kernels are. What sums in the low type on
// the device sums in float32 here. With `saturates`, what leaves float16's range becomes 65504: see
// saturate_overflows.h.
#ifndef NPU_PRECISION_GRAPH_PASSES_REWRITE_EMULATE_H_
#define NPU_PRECISION_GRAPH_PASSES_REWRITE_EMULATE_H_

#include "graph_passes/rewrite/pass_state.h"
#include "tensorflow/core/lib/core/status.h"

namespace npu_precision {

// The result has no marks: to a later run it is a graph of float32.
tensorflow::Status EmulateLowTypes(PassState* state, bool* changed);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_REWRITE_EMULATE_H_
