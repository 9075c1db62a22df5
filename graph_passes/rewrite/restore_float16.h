// Undoes compute_in_float32 of an earlier run: the nodes are float16, or bfloat16, again, so that
// this run decides about the same graph as the earlier one.
//
// Before: MatMul(float32) -> Cast -> Cast -> Softmax(float32), marked. After: MatMul(float16) ->
// Softmax(float16).
//
// If another optimizer changed the graph in between, dtypes at edges may no longer agree. Casts
// then connect them. A Cast that rounds stays if the caller fetches or feeds it.
#ifndef NPU_PRECISION_GRAPH_PASSES_REWRITE_RESTORE_FLOAT16_H_
#define NPU_PRECISION_GRAPH_PASSES_REWRITE_RESTORE_FLOAT16_H_

#include "graph_passes/rewrite/pass_state.h"
#include "tensorflow/core/lib/core/status.h"

namespace npu_precision {

tensorflow::Status RestoreFloat16(PassState* state, bool* changed);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_REWRITE_RESTORE_FLOAT16_H_
