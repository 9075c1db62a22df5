// Finds the lowered type groups of a rewritten graph by its marks.
#ifndef NPU_PRECISION_GRAPH_PASSES_DECIDE_LOWERED_GROUPS_H_
#define NPU_PRECISION_GRAPH_PASSES_DECIDE_LOWERED_GROUPS_H_

#include <vector>

#include "graph_passes/graph/graph_view.h"

namespace npu_precision {

// Returns, by group number, whether this run or an earlier one gave the group its low type. This
// includes inserted nodes that carry the results of Casts into a loop, but not the Casts, which
// stand between dtypes.
std::vector<bool> LoweredGroups(const GraphView& view);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_DECIDE_LOWERED_GROUPS_H_
