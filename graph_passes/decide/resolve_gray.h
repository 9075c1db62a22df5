// Gray nodes follow their predecessors.
//
// A gray type group is lowered iff at least one predecessor votes "lowered" and none votes "kept".
// Only producers of tensors bound to the group vote; neutral sources do not, nor does a gray group
// that has no votes itself. The answer is the least fixpoint over unknown < lowered < kept, so it
// does not depend on the order of the nodes, in loops neither.
#ifndef NPU_PRECISION_GRAPH_PASSES_DECIDE_RESOLVE_GRAY_H_
#define NPU_PRECISION_GRAPH_PASSES_DECIDE_RESOLVE_GRAY_H_

#include <vector>

#include "graph_passes/decide/group_state.h"
#include "graph_passes/graph/graph_view.h"

namespace npu_precision {

// Groups that must share a dtype are one class: `leader[g]` is the number of the group that stands
// for the class of g (itself for most).
//
// Updates `groups` (by the view's group numbers) until every gray group has its vote. A tensor
// whose dtype is `low_type` already, seen through Casts this optimizer inserted, votes "lowered".
void ResolveGray(const GraphView& view, const std::vector<int>& leader,
                 tensorflow::DataType low_type, std::vector<GroupState>* groups);

// What the producer of input `index` of node `id` says, given the states; `voter` is its node id
// (Casts this optimizer inserted are looked through).
Vote VoteOn(const GraphView& view, const std::vector<int>& leader,
            const std::vector<GroupState>& groups, tensorflow::DataType low_type, int id, int index,
            int* voter);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_DECIDE_RESOLVE_GRAY_H_
