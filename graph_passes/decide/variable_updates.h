// Keeps float32 in gray arithmetic that computes the next value of a variable.
//
// Master weights need the precision of float32, not just its dtype. In a step like
// w.assign_sub(0.001 * m), or m.assign(0.9 * m + 0.1 * gradient), float16 would lose small updates,
// and a gradient that is scaled or squared in float16 may become zero.
#ifndef NPU_PRECISION_GRAPH_PASSES_DECIDE_VARIABLE_UPDATES_H_
#define NPU_PRECISION_GRAPH_PASSES_DECIDE_VARIABLE_UPDATES_H_

#include <set>
#include <string>
#include <vector>

#include "graph_passes/decide/group_state.h"
#include "graph_passes/graph/graph_view.h"

namespace npu_precision {

// Returns the type groups that update variables, by group number. `groups` are the states before
// gray is resolved. A group updates a variable if it is gray and on a path of gray groups
// - from the read of a variable to its write, or
// - to a write, and no other path of gray groups leads from it to a group that may be lowered.
std::vector<int> VariableUpdates(const GraphView& view, const std::set<std::string>& preserved,
                                 const std::vector<GroupState>& groups);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_DECIDE_VARIABLE_UPDATES_H_
