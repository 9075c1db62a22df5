// Lowers gray ops that only move values, or cast booleans, and get no vote, if all their consumers
// are lowered.
//
// A Cast before such an op yields the same bits as a Cast behind it. It reads no more bytes, often
// runs once instead of in each iteration, and the op then moves half as many bytes. So this rule
// changes the places of Casts, and no value. Gray ops that compute keep their dtype if they get no
// vote.
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
  int consumer;  // a node that reads the group and is lowered or follows; where nothing reads the
                 // group, a node that reads its class or its producers
};

// Finds these groups, given the votes after gray is resolved. A group follows with its whole class.
std::vector<FollowsConsumer> FollowConsumers(const GraphView& view, const DecideContext& context,
                                             const std::vector<Handle>& handles,
                                             const std::vector<int>& leader,
                                             const std::vector<GroupState>& groups);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_DECIDE_FOLLOW_CONSUMERS_H_
