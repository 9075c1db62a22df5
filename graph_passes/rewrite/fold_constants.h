// Stores constants in the low type: Const(float32) -> our Cast becomes Const(low).
//
// Looks through Identity nodes (frozen variables are Const -> Identity). The float32 constant, and
// the Identity nodes between, are removed if no other node reads them. A node stays if a node that
// stays is colocated with it. It also stays if the constant has control inputs and another node has
// a control dependency on it. Without control inputs, such a dependency orders nothing, and is
// removed. Refused: a preserved or fed constant keeps its Cast.
#ifndef NPU_PRECISION_GRAPH_PASSES_REWRITE_FOLD_CONSTANTS_H_
#define NPU_PRECISION_GRAPH_PASSES_REWRITE_FOLD_CONSTANTS_H_

#include "graph_passes/rewrite/pass_state.h"
#include "tensorflow/core/lib/core/status.h"

namespace npu_precision {

tensorflow::Status FoldConstants(PassState* state, bool* changed);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_REWRITE_FOLD_CONSTANTS_H_
