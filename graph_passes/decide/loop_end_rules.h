// Keeps float32 in what decides that a loop has converged: see analysis/loop_ends.h.
#ifndef NPU_PRECISION_GRAPH_PASSES_DECIDE_LOOP_END_RULES_H_
#define NPU_PRECISION_GRAPH_PASSES_DECIDE_LOOP_END_RULES_H_

#include <vector>

#include "graph_passes/decide/decide_context.h"
#include "graph_passes/decide/kept_group.h"
#include "graph_passes/graph/graph_view.h"

namespace npu_precision {

// Returns the groups of these nodes, with reason before_magnifier and the comparison as the cause.
// Paths end at nodes with `ends_path` set, by node id.
std::vector<KeptGroup> LoopEndRules(const GraphView& view, const DecideContext& context,
                                    const std::vector<bool>& ends_path);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_DECIDE_LOOP_END_RULES_H_
