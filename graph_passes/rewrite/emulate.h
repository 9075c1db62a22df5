// Computes lowered nodes in float32 and rounds their values to the low type. This shows the results
// of a device with kernels for the low type on a device without them.
//
// Before: x -> Cast -> MatMul(float16) -> Relu(float16) -> Cast -> Exp.
// After: x -> Cast -> Cast -> MatMul(float32) -> Cast -> Cast -> Relu(float32) -> ... -> Exp, where
// each pair of Casts goes through float16 and back.
//
// The result is exact for ops that round once, such as Eigen's elementwise kernels. Ops that sum in
// the low type on the device sum in float32 here. With `saturates`, values that exceed float16's
// range become 65504: see saturate_overflows.h.
#ifndef NPU_PRECISION_GRAPH_PASSES_REWRITE_EMULATE_H_
#define NPU_PRECISION_GRAPH_PASSES_REWRITE_EMULATE_H_

#include "graph_passes/rewrite/pass_state.h"
#include "tensorflow/core/lib/core/status.h"

namespace npu_precision {

// The result has no marks: a later run sees a float32 graph.
tensorflow::Status EmulateLowTypes(PassState* state, bool* changed);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_REWRITE_EMULATE_H_
