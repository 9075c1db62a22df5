// Gives inputs and outputs of a graph the low type if only a Cast is between them and the ops of
// that type:
//
//   x(float32) -> Cast -> MatMul(float16) -> Cast(named out)
//   becomes  x(float16) -> MatMul(float16, named out)
//
// It only changes nodes that the caller marks: placeholders and fetches. Refused: a placeholder
// with a float32 reader, and an output that was not lowered.
#ifndef NPU_PRECISION_GRAPH_PASSES_REWRITE_LOWER_IO_TYPES_H_
#define NPU_PRECISION_GRAPH_PASSES_REWRITE_LOWER_IO_TYPES_H_

#include "graph_passes/rewrite/pass_state.h"
#include "tensorflow/core/lib/core/status.h"

namespace npu_precision {

// Removes outputs that changed from `state->preserved`.
tensorflow::Status LowerIoTypes(PassState* state, bool* changed);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_REWRITE_LOWER_IO_TYPES_H_
