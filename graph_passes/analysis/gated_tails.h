// Finds tails of distributions that only weigh what they were computed from, as in an exact GELU:
//
//   x * 0.5 * Erfc(-x * sqrt(0.5))
//
// Alone, Erfc spans many orders of magnitude, and float16 has none below 6e-8. Weighing x, it
// matters beside x only: what is lost is less than the rounding of x. Not where an Exp makes the
// tail large again.
#ifndef NPU_PRECISION_GRAPH_PASSES_ANALYSIS_GATED_TAILS_H_
#define NPU_PRECISION_GRAPH_PASSES_ANALYSIS_GATED_TAILS_H_

#include "graph_passes/graph/graph_view.h"

namespace npu_precision {

// Whether the node is an Erfc of a negative multiple of x that only products read, one of them with
// a positive multiple of x. No product may have an Exp as its other factor, nor may that with x be
// multiplied by an Exp later.
bool IsGatedTail(const GraphView& view, int id);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_ANALYSIS_GATED_TAILS_H_
