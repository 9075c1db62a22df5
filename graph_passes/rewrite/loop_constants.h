// Reads from outside of a loop what the loop would hand on unchanged from iteration to iteration:
//
//   Enter -> Merge -> Switch -> body, NextIteration -> Merge   becomes   constant Enter -> body
//
// A lowered functional While carries its captures in such variables: weights, mostly, and each
// costs three ops in every iteration, and a Switch between a weight and its MatMul, which keeps
// TensorFlow from preparing the weight once.
//
// A node of the body must not run when the loop is over. So one that reads nothing else of the body
// reads the Switch as before, which then has the Enter for its input.
//
// Control inputs that say no more than that an iteration goes on are taken off nodes that a data
// input tells the same, because TensorFlow fuses no node that waits.
#ifndef NPU_PRECISION_GRAPH_PASSES_REWRITE_LOOP_CONSTANTS_H_
#define NPU_PRECISION_GRAPH_PASSES_REWRITE_LOOP_CONSTANTS_H_

#include "graph_passes/rewrite/pass_state.h"
#include "tensorflow/core/lib/core/status.h"

namespace npu_precision {

tensorflow::Status HoistLoopConstants(PassState* state, bool* changed);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_REWRITE_LOOP_CONSTANTS_H_
