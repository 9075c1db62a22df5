// Keeps float32 in the producers of an op that magnifies relative error, back to the last matrix or
// convolution op.
//
// A probability near 1 that is rounded to bfloat16 has lost the digits that log(1 - p) needs, and
// log(0) is infinite. The gray ops between a matrix product and a Log are cheap in float32. Their
// gradients follow them by their votes.
#ifndef NPU_PRECISION_GRAPH_PASSES_DECIDE_BEFORE_MAGNIFIERS_H_
#define NPU_PRECISION_GRAPH_PASSES_DECIDE_BEFORE_MAGNIFIERS_H_

#include <vector>

#include "graph_passes/analysis/accumulators.h"
#include "graph_passes/analysis/value_range.h"
#include "graph_passes/decide/decide_context.h"
#include "graph_passes/decide/kept_group.h"
#include "graph_passes/graph/graph_view.h"

namespace npu_precision {

// Returns the groups of the producers (reason before_magnifier; the cause is the magnifier, the
// difference of squares, or a product that accumulates), and the groups of the magnifiers
// themselves (reason magnifies), which are not black under all_white. The walk back ends at
// - tensors without rounding errors, such as integers,
// - matrix and convolution ops, and ops that only change the shape of their results,
// - sources, function calls and lists,
// - the ops where a loop begins an iteration, but for values that no iteration changes,
// - nodes with `ends_path` set, by node id,
// - sums and means, except those of complements such as 1 - p.
// At an If or Case it goes on before the inputs whose errors reach the output, if marks say which
// those are (see analysis/body_facts.h), else before all. It goes into no branch:
// the rule kept_in_place does (see cc/bodies_in_place.h).
std::vector<KeptGroup> BeforeMagnifiers(const GraphView& view,
                                        const std::vector<ValueRange>& ranges,
                                        const std::vector<Accumulator>& accumulators,
                                        const DecideContext& context,
                                        const std::vector<bool>& ends_path);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_DECIDE_BEFORE_MAGNIFIERS_H_
