// Undoes what an earlier run's compute_in_float32 did: the graph is of float16 again, as the passes
// before that left it, so that this run decides about what the earlier one decided about.
//
// Before: MatMul(float32) -> Cast -> Cast -> Softmax(float32), marked. After: MatMul(float16) ->
// Softmax(float16).
//
// Where another optimizer changed the graph in between, edges may no longer agree. Casts connect
// them. A Cast that rounds stays where the caller fetches or feeds it.
#ifndef NPU_PRECISION_GRAPH_PASSES_REWRITE_RESTORE_FLOAT16_H_
#define NPU_PRECISION_GRAPH_PASSES_REWRITE_RESTORE_FLOAT16_H_

#include "graph_passes/rewrite/pass_state.h"
#include "tensorflow/core/lib/core/status.h"

namespace npu_precision {

tensorflow::Status RestoreFloat16(PassState* state, bool* changed);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_REWRITE_RESTORE_FLOAT16_H_
