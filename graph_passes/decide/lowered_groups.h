// What was lowered, as the marks in a rewritten graph say.
#ifndef NPU_PRECISION_GRAPH_PASSES_DECIDE_LOWERED_GROUPS_H_
#define NPU_PRECISION_GRAPH_PASSES_DECIDE_LOWERED_GROUPS_H_

#include <vector>

#include "graph_passes/graph/graph_view.h"

namespace npu_precision {

// By group number: whether this run or an earlier one gave it its low type. Also of inserted nodes
// that carry the results of Casts into a loop, but not of these Casts: they stand between dtypes.
std::vector<bool> LoweredGroups(const GraphView& view);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_DECIDE_LOWERED_GROUPS_H_
