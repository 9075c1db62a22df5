// Makes gray nodes follow their predecessors.
//
// A gray type group is lowered iff at least one predecessor votes "lowered" and none votes "kept".
// Only producers of tensors that are bound to the group vote. Neutral sources, biases and small
// operands do not, nor do gray groups without votes. The result is the least fixpoint over the
// lattice unknown < lowered < kept, so it does not depend on the order of the nodes, not even in
// loops.
#ifndef NPU_PRECISION_GRAPH_PASSES_DECIDE_RESOLVE_GRAY_H_
#define NPU_PRECISION_GRAPH_PASSES_DECIDE_RESOLVE_GRAY_H_

#include <vector>

#include "graph_passes/decide/group_state.h"
#include "graph_passes/decide/small_operands.h"
#include "graph_passes/graph/graph_view.h"

namespace npu_precision {

// Updates `groups`, by group number, until every gray group has its vote. `leader` has the leaders
// of classes (see shared_dtypes.h). A tensor behind Casts that this optimizer inserted votes
// "lowered" if it has dtype `low_type` already.
void ResolveGray(const GraphView& view, const std::vector<int>& leader, const SmallOperands& small,
                 tensorflow::DataType low_type, std::vector<GroupState>* groups);

// The vote of the producer of input `index` of node `id`. `voter` gets the id of the producer.
// Casts that this optimizer inserted are skipped.
Vote VoteOn(const GraphView& view, const std::vector<int>& leader,
            const std::vector<GroupState>& groups, const SmallOperands& small,
            tensorflow::DataType low_type, int id, int index, int* voter);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_DECIDE_RESOLVE_GRAY_H_
