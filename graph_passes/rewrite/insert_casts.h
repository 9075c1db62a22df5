// Decisions -> graph. The only mutator of dtypes; it never decides.
//
// Sets the type attributes that changed and puts a Cast on every edge whose two ends no longer
// agree: one per (producer port, dtype), shared by all consumers, on the producer's device.
// Before: relu -> MatMul(float32). After: relu -> Cast -> MatMul(float16) -> Cast -> its kept
// consumers. What is the same in every iteration of a loop is cast outside of it: before:
// w -> Enter -> MatMul. After: w -> Cast -> another Enter -> MatMul. A preserved node that changed
// is renamed and a Cast takes its name; so is, without a Cast, one that has state. A pair low ->
// float32 -> low that is exact collapses; low -> float32 -> low is never made.
#ifndef NPU_PRECISION_GRAPH_PASSES_REWRITE_INSERT_CASTS_H_
#define NPU_PRECISION_GRAPH_PASSES_REWRITE_INSERT_CASTS_H_

#include <string>

#include "graph_passes/rewrite/pass_state.h"
#include "tensorflow/core/lib/core/status.h"

namespace npu_precision {

tensorflow::Status InsertCasts(PassState* state, bool* changed);

// The name of a node that cannot have its own once its dtype changed: of a preserved one, a Cast
// has that; of one with state, whoever runs the graph unchanged.
std::string Renamed(const std::string& name);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_REWRITE_INSERT_CASTS_H_
