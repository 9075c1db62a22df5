// Loop variables that accumulate: each iteration adds a term. They keep float32.
//
// The gradient of a weight that a loop uses is one. A single addition is gray, but a thousand of
// them are a reduction, and lose as much in the low type as a reduction does.
#ifndef NPU_PRECISION_GRAPH_PASSES_DECIDE_LOOP_ACCUMULATORS_H_
#define NPU_PRECISION_GRAPH_PASSES_DECIDE_LOOP_ACCUMULATORS_H_

#include <vector>

#include "graph_passes/decide/group_state.h"
#include "graph_passes/graph/graph_view.h"

namespace npu_precision {

// A loop variable that the body uses only in the gray addition that computes its next value.
struct LoopAccumulator {
  int variable;             // the group of its Merge
  std::vector<int> groups;  // of the nodes from the Merge to the addition, both included
};

// Finds them all. `groups` are the states before gray is resolved.
std::vector<LoopAccumulator> LoopAccumulators(const GraphView& view,
                                              const std::vector<GroupState>& groups);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_DECIDE_LOOP_ACCUMULATORS_H_
