// Applies the mode and the lists to each node by itself, before any node depends on another.
#ifndef NPU_PRECISION_GRAPH_PASSES_DECIDE_APPLY_MODE_H_
#define NPU_PRECISION_GRAPH_PASSES_DECIDE_APPLY_MODE_H_

#include <vector>

#include "graph_passes/decide/classify_nodes.h"
#include "graph_passes/decide/decide_context.h"
#include "graph_passes/decide/decision.h"
#include "graph_passes/decide/group_state.h"
#include "graph_passes/graph/graph_view.h"

namespace npu_precision {

// Returns the first state of each type group, by the view's group numbers. In `decisions`, float
// nodes get their list and the verdict "kept", and the reason if mode and list alone settle it.
// Nodes that are white by default are gray here (see all_white.h).
std::vector<GroupState> ApplyMode(const GraphView& view, const DecideContext& context,
                                  const NodeClasses& classes, Decisions* decisions);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_DECIDE_APPLY_MODE_H_
