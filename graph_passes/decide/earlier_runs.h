// Recalls the decision of an earlier run about a node that this run does not change.
#ifndef NPU_PRECISION_GRAPH_PASSES_DECIDE_EARLIER_RUNS_H_
#define NPU_PRECISION_GRAPH_PASSES_DECIDE_EARLIER_RUNS_H_

#include "graph_passes/decide/decide_context.h"
#include "graph_passes/decide/decision.h"
#include "graph_passes/graph/graph_view.h"

namespace npu_precision {

// Copies the decision from the node's mark and returns true. Returns false, and changes nothing, if
// there is no mark or the node is not as this mode would have left it.
bool RecallEarlierRun(const GraphView& view, const DecideContext& context, int id,
                      Decision* decision);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_DECIDE_EARLIER_RUNS_H_
