// The rules that keep float32 whatever the built-in lists and the predecessors say: for what the
// low type would make infinite, zero, endless or NaN.
//
// In this order, and the first that applies gives the reason:
// - follows_forward: the gradient of an op that the user kept by name or scope,
// - sums_iterations: what accumulates over a loop, or from call to call (analysis/accumulators),
// - guard_constant, leaves_range: values that the low type cannot hold (range_rules),
// - before_magnifier, magnifies: what feeds an op that magnifies errors, and the op itself
//   (before_magnifiers).
#ifndef NPU_PRECISION_GRAPH_PASSES_DECIDE_KEEP_RULES_H_
#define NPU_PRECISION_GRAPH_PASSES_DECIDE_KEEP_RULES_H_

#include <vector>

#include "graph_passes/decide/classify_nodes.h"
#include "graph_passes/decide/decide_context.h"
#include "graph_passes/decide/decision.h"
#include "graph_passes/decide/group_state.h"
#include "graph_passes/graph/constant_values.h"
#include "graph_passes/graph/graph_view.h"

namespace npu_precision {

bool IsOfKeepRule(Reason reason);

// In the mixed modes, decides the groups that a rule keeps; not those of which the mixlist says
// anything, nor those whose float32 the target does not support. In the other modes that lower,
// only adds a warning for each rule that would keep what the mode lowers.
void ApplyKeepRules(const GraphView& view, const DecideContext& context, const NodeClasses& classes,
                    const ConstantValues& values, std::vector<GroupState>* groups,
                    Decisions* decisions);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_DECIDE_KEEP_RULES_H_
