// Finds type groups that must have the same dtype. They form a class, which is decided as one.
//
// These share a dtype: a Merge with the Enter and NextIteration nodes that feed it; the ops on one
// handle; and the plain type attributes of one node that can change, because kernels were found
// only with all of them changed.
#ifndef NPU_PRECISION_GRAPH_PASSES_DECIDE_SHARED_DTYPES_H_
#define NPU_PRECISION_GRAPH_PASSES_DECIDE_SHARED_DTYPES_H_

#include <vector>

#include "graph_passes/analysis/handles.h"
#include "graph_passes/decide/group_state.h"
#include "graph_passes/graph/graph_view.h"

namespace npu_precision {

// Returns, by group number, the group that leads its class. Most groups are a class of their own
// and lead themselves.
std::vector<int> ClassLeaders(const GraphView& view, const std::vector<bool>& can_change,
                              const std::vector<Handle>& handles);

// Gives all groups of a class one state: kept if one of them is kept, else lowered if one is
// lowered, else gray. A class with a white group and one that cannot change is kept.
void AgreeInClasses(const std::vector<int>& leader, std::vector<GroupState>* groups);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_DECIDE_SHARED_DTYPES_H_
