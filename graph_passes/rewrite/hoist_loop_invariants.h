// Hoists loop variables that every iteration passes on unchanged; the option `loop_constants`:
//
//   Enter -> Merge -> Switch -> body, NextIteration -> Merge   becomes   constant Enter -> body
//
// A lowered functional While carries its captures, mostly weights, in such variables. Each costs
// three ops in every iteration. Its Switch also stands between a weight and the MatMul, so
// TensorFlow cannot see that the weight is constant, and prepares it in every iteration.
//
// A node of the body must not run when the loop is over. A node that reads nothing else of the body
// therefore still reads the Switch, whose input is then the Enter.
//
// Also drops control dependencies that only ensure that the iteration runs, if a data input of the
// node ensures the same: TensorFlow fuses no node that has a control input.
#ifndef NPU_PRECISION_GRAPH_PASSES_REWRITE_HOIST_LOOP_INVARIANTS_H_
#define NPU_PRECISION_GRAPH_PASSES_REWRITE_HOIST_LOOP_INVARIANTS_H_

#include "graph_passes/rewrite/pass_state.h"
#include "tensorflow/core/lib/core/status.h"

namespace npu_precision {

tensorflow::Status HoistLoopInvariants(PassState* state, bool* changed);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_REWRITE_HOIST_LOOP_INVARIANTS_H_
