// Gray ops that only move values and hear no vote follow what reads them, where all of that is
// lowered.
//
// A Cast before such an op yields bit for bit what one behind it does, from no more bytes and often
// once instead of in each iteration, and half as many bytes are moved. So this changes where Casts
// are, and nothing that is computed; gray that computes keeps its dtype without a vote.
#ifndef NPU_PRECISION_GRAPH_PASSES_DECIDE_FOLLOW_CONSUMERS_H_
#define NPU_PRECISION_GRAPH_PASSES_DECIDE_FOLLOW_CONSUMERS_H_

#include <vector>

#include "graph_passes/analysis/handles.h"
#include "graph_passes/decide/decide_context.h"
#include "graph_passes/decide/group_state.h"
#include "graph_passes/graph/graph_view.h"

namespace npu_precision {

struct FollowsConsumer {
  int group;     // to be lowered
  int consumer;  // the node id of a reader that is lowered or follows; where nothing reads the
                 // group, of its class or of what it reads
};

// By group number, given the votes after gray is resolved. A group follows with its whole class.
std::vector<FollowsConsumer> FollowConsumers(const GraphView& view, const DecideContext& context,
                                             const std::vector<Handle>& handles,
                                             const std::vector<int>& leader,
                                             const std::vector<GroupState>& groups);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_DECIDE_FOLLOW_CONSUMERS_H_
