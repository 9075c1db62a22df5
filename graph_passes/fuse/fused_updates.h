// Updates variables in one sweep over memory, by an op of this library.
//
// A training op of TensorFlow reads a float32 gradient, which a Cast writes just before it. Keras 3
// writes an update as a dozen elementwise ops, each of which reads and writes the whole variable.
//
// Before: gradient:bfloat16 -> Cast -> ResourceApplyMomentum(var, accum, lr, _, momentum), or
//         m = ReadVariableOp(h); AssignAddVariableOp(h, (gradient - m) * c); ...
// After:  NpuPrecisionUpdate(var, accum, gradient:bfloat16, lr, momentum), whose attribute has the
//         formula. The values are the same to the bit, but for Rsqrt and AdaGrad (two units in the
//         last place; in TensorFlow 1.15 also Sqrt). The nodes before become NoOps that wait for
//         it.
//
// An op that writes single rows, as of an embedding, stays between two sweeps; a sweep after it
// reads the variable where it is, as each ReadVariableOp would copy it from then on.
//
// Refused: a training op whose gradient is float32; a group that another node writes in between, or
// whose later updates depend on what something else makes of the earlier ones; unknown shapes.
#ifndef NPU_PRECISION_GRAPH_PASSES_FUSE_FUSED_UPDATES_H_
#define NPU_PRECISION_GRAPH_PASSES_FUSE_FUSED_UPDATES_H_

#include "graph_passes/rewrite/pass_state.h"

namespace npu_precision {

tensorflow::Status FuseUpdates(PassState* state, bool* changed);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_FUSE_FUSED_UPDATES_H_
