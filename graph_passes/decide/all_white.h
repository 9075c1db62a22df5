// The option all_white: lowers every op except variable updates, sums over a loop, and the loss.
//
// Ops that are on the target's gray or black list are white by default (see op_lists.h). They start
// as gray, so that the rules find variable updates and sums as without all_white. This rule then
// returns the ops in the region of the loss to their lists, and lowers the others.
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
// of the loss get their list without all_white.
void DecideAllWhite(const GraphView& view, const DecideContext& context, NodeClasses* classes,
                    std::vector<GroupState>* groups, Decisions* decisions);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_DECIDE_ALL_WHITE_H_
