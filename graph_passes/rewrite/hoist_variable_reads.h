// Reads a variable before a loop instead of in each iteration, if no node in a loop may write one:
//
//   variable -> constant Enter -> ReadVariableOp -> body
//   becomes
//   variable -> ReadVariableOp -> constant Enter -> body
//
// The recurrent layers of Keras 3 read their weights in the loop. Behind such a read, each
// iteration casts the weights anew, which takes longer than the low type saves.
//
// A write before the loop stays before the read, which waits for all that enters the loop. A write
// behind the loop stays behind it, because control dependencies on the read stay. A node of the
// body must not run when the loop is over, so all nodes that read the value must also read
// something that is dead then, and those that wait for it also wait for what it waited for.
#ifndef NPU_PRECISION_GRAPH_PASSES_REWRITE_HOIST_VARIABLE_READS_H_
#define NPU_PRECISION_GRAPH_PASSES_REWRITE_HOIST_VARIABLE_READS_H_

#include "graph_passes/rewrite/pass_state.h"
#include "tensorflow/core/lib/core/status.h"

namespace npu_precision {

tensorflow::Status HoistVariableReads(PassState* state, bool* changed);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_REWRITE_HOIST_VARIABLE_READS_H_
