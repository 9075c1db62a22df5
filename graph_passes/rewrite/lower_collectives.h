// Adds gradients up over workers in the low type that they were computed in.
//
// Before: g -> Cast to float32 -> CollectiveReduceV2 -> update.
// After:  g -> CollectiveReduceV2 -> Cast to float32 -> update.
//
// A pack may also have parts that stay float32. Then a second collective, with its own instance
// key, carries the lowered parts.
// Before: a (float32), Cast of b, Cast of c -> ConcatV2 -> CollectiveReduceV2 -> SplitV -> a, b, c.
// After:  a -> ConcatV2 -> CollectiveReduceV2 -> SplitV -> a, and
//         b, c -> ConcatV2 -> CollectiveReduceV2 -> Cast to float32 -> SplitV -> b, c.
//
// In float16, each worker divides before the sum, by the power of two that is not less than their
// number, and multiplies afterwards: both are exact, but for subnormal numbers, and no sum of
// finite numbers leaves the range of float16.
#ifndef NPU_PRECISION_GRAPH_PASSES_REWRITE_LOWER_COLLECTIVES_H_
#define NPU_PRECISION_GRAPH_PASSES_REWRITE_LOWER_COLLECTIVES_H_

#include "graph_passes/rewrite/pass_state.h"

namespace npu_precision {

tensorflow::Status LowerCollectives(PassState* state, bool* changed);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_REWRITE_LOWER_COLLECTIVES_H_
