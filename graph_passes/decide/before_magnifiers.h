// What feeds an op that magnifies relative error keeps float32, back to the last matrix or
// convolution op.
//
// A probability rounded to bfloat16 near 1 has lost what log(1 - p) is about, and log(0) is
// infinite. The gray ops between a matrix product and a Log are cheap in float32. Their gradients
// follow them by their votes.
#ifndef NPU_PRECISION_GRAPH_PASSES_DECIDE_BEFORE_MAGNIFIERS_H_
#define NPU_PRECISION_GRAPH_PASSES_DECIDE_BEFORE_MAGNIFIERS_H_

#include <vector>

#include "graph_passes/analysis/value_range.h"
#include "graph_passes/decide/decide_context.h"
#include "graph_passes/decide/kept_group.h"
#include "graph_passes/graph/graph_view.h"

namespace npu_precision {

// The groups of these ops (reason before_magnifier; the cause is the magnifier, or the difference
// of squares, or a product that accumulates), and those of the magnifiers (reason magnifies), which
// are not black under all_white. The walk back ends at matrix and convolution ops, with what only
// changes the shape of their results, sources, function calls, lists, where a loop begins an
// iteration, at nodes with `ends_path` set, by node id, and at sums and means of other than
// complements such as 1 - p. `accumulators` are node ids.
std::vector<KeptGroup> BeforeMagnifiers(const GraphView& view,
                                        const std::vector<ValueRange>& ranges,
                                        const std::vector<int>& accumulators,
                                        const DecideContext& context,
                                        const std::vector<bool>& ends_path);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_DECIDE_BEFORE_MAGNIFIERS_H_
