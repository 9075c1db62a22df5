// Options + lists + predecessors -> one decision per node. Never changes the graph.
#ifndef NPU_PRECISION_GRAPH_PASSES_DECIDE_DECIDE_PRECISION_H_
#define NPU_PRECISION_GRAPH_PASSES_DECIDE_DECIDE_PRECISION_H_

#include "graph_passes/decide/decide_context.h"
#include "graph_passes/decide/decision.h"
#include "graph_passes/graph/graph_view.h"

namespace npu_precision {

// Decides every node of `view` by the rule of the mode. A user error (InvalidArgument) where
// must_keep_origin_dtype meets nodes whose dtype the target does not support, or where node
// patterns contradict each other.
tensorflow::Status DecidePrecision(const GraphView& view, const DecideContext& context,
                                   Decisions* decisions);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_DECIDE_DECIDE_PRECISION_H_
