// all_white: every op is lowered but for what updates variables, what sums up over a loop, and the
// loss.
//
// The ops that the target has on its gray or black list are white by default (see op_lists.h). They
// are gray at first, so that what updates variables and what sums up is found as without
// all_white. Here, those in the region of the loss go back to their lists, and the others are
// lowered.
#ifndef NPU_PRECISION_GRAPH_PASSES_DECIDE_ALL_WHITE_H_
#define NPU_PRECISION_GRAPH_PASSES_DECIDE_ALL_WHITE_H_

#include <vector>

#include "graph_passes/decide/classify_nodes.h"
#include "graph_passes/decide/decide_context.h"
#include "graph_passes/decide/decision.h"
#include "graph_passes/decide/group_state.h"
#include "graph_passes/graph/graph_view.h"

namespace npu_precision {

// Decides the groups that are white by default. In `classes` and `decisions`, nodes in the region
// of the loss get the list they are on without all_white.
void DecideAllWhite(const GraphView& view, const DecideContext& context, NodeClasses* classes,
                    std::vector<GroupState>* groups, Decisions* decisions);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_DECIDE_ALL_WHITE_H_
