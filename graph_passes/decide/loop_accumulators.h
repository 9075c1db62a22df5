// Sums over the iterations of a loop.
//
// The gradient of a weight that a loop uses is a loop variable that each iteration adds a term to.
// However gray an addition is, a thousand of them one after the other are a reduction, and lose in
// the low type what reductions lose: such a variable keeps float32.
#ifndef NPU_PRECISION_GRAPH_PASSES_DECIDE_LOOP_ACCUMULATORS_H_
#define NPU_PRECISION_GRAPH_PASSES_DECIDE_LOOP_ACCUMULATORS_H_

#include <vector>

#include "graph_passes/decide/group_state.h"
#include "graph_passes/graph/graph_view.h"

namespace npu_precision {

// A loop variable that the body uses in nothing but the gray addition that makes its next value.
struct LoopAccumulator {
  int variable;             // the group of its Merge
  std::vector<int> groups;  // those on the way from the Merge to the addition, and the addition's
};

// All of them, given what is known of each group before gray is resolved.
std::vector<LoopAccumulator> LoopAccumulators(const GraphView& view,
                                              const std::vector<GroupState>& groups);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_DECIDE_LOOP_ACCUMULATORS_H_
