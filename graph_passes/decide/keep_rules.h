// The common part of the keep rules. A keep rule keeps float32, whatever the built-in lists and the
// predecessors say, because the low type would make values infinite, zero or NaN, a loop endless,
// or a kernel much slower.
//
// rule_table.cc has the rules in their order. The first that applies to a node gives its reason.
#ifndef NPU_PRECISION_GRAPH_PASSES_DECIDE_KEEP_RULES_H_
#define NPU_PRECISION_GRAPH_PASSES_DECIDE_KEEP_RULES_H_

#include <vector>

#include "graph_passes/decide/decide_state.h"
#include "graph_passes/decide/kept_group.h"

namespace npu_precision {

// Decides, in the mixed modes, the groups that a rule keeps, except groups with an entry in the
// mixlist, and groups whose float32 the target does not support. In the other modes that lower, it
// only records the groups that the mode lowers anyway.
void Keep(const std::vector<KeptGroup>& kept, DecideState* state);

// Keeps those of `groups` that are gray and could follow their predecessors.
void KeepGray(const std::vector<int>& groups, Reason reason, DecideState* state);

// Adds a warning for each reason that Keep() recorded.
void WarnOfKeepRules(DecideState* state);

// By node id, whether paths of the keep rules end at the node, because the user lowers it or rounds
// its values.
std::vector<bool> EndsPath(const GraphView& view, const NodeClasses& classes);

// Returns the groups of accumulators, with the reason sums_iterations or sums_calls.
std::vector<KeptGroup> Accumulating(const GraphView& view,
                                    const std::vector<Accumulator>& accumulators);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_DECIDE_KEEP_RULES_H_
