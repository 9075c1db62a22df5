// Gray arithmetic that makes the next value of a variable.
//
// Master weights are float32 for their bits as well as by their dtype: in a step like
// w.assign_sub(0.001 * m), or m.assign(0.9 * m + 0.1 * gradient), the gray ops keep float32, so
// that small updates are not lost and a gradient is scaled or squared after it was cast.
#ifndef NPU_PRECISION_GRAPH_PASSES_DECIDE_VARIABLE_UPDATES_H_
#define NPU_PRECISION_GRAPH_PASSES_DECIDE_VARIABLE_UPDATES_H_

#include <set>
#include <string>
#include <vector>

#include "graph_passes/decide/group_state.h"
#include "graph_passes/graph/graph_view.h"

namespace npu_precision {

// The type groups that update variables, by the view's group numbers, given what is known of each
// before gray is resolved: gray groups on a path of gray groups from a variable's read to its
// write, and those before a write whose other uses, if any, keep float32 anyway.
std::vector<int> VariableUpdates(const GraphView& view, const std::set<std::string>& preserved,
                                 const std::vector<GroupState>& groups);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_DECIDE_VARIABLE_UPDATES_H_
