// Finds costly islands: connected lowered nodes with float32 all around, whose Casts take more time
// than the low type saves. Before: Exp -> Cast -> MatMul [4096, 16, 16] -> Cast -> Exp, which takes
// a third longer than without the Casts.
//
// The threshold is measured on a CPU with instructions for bfloat16: a Cast of one element takes as
// long as 120 operations of a product save. An island is costly at half as many, to have a margin.
// On a GPU, it takes as long as 1,800, and a launch besides.
// Some islands are not judged: those of unknown shapes or on several devices, and those where a
// list of the user or customize_dtypes lowers a node, or where an earlier run left Casts.
#ifndef NPU_PRECISION_GRAPH_PASSES_DECIDE_COSTLY_ISLANDS_H_
#define NPU_PRECISION_GRAPH_PASSES_DECIDE_COSTLY_ISLANDS_H_

#include <vector>

#include "graph_passes/decide/classify_nodes.h"
#include "graph_passes/decide/decide_context.h"
#include "graph_passes/decide/group_state.h"
#include "graph_passes/graph/graph_view.h"

namespace npu_precision {

// Returns the groups of costly islands, given the votes after gray is resolved. A group belongs to
// the island of its whole class.
std::vector<int> CostlyIslands(const GraphView& view, const DecideContext& context,
                               const NodeClasses& classes, const std::vector<int>& leader,
                               const std::vector<GroupState>& groups);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_DECIDE_COSTLY_ISLANDS_H_
