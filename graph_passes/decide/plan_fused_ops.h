// Decides about fused ops as the ops they fuse, then keeps each whole where its parts agree.
#ifndef NPU_PRECISION_GRAPH_PASSES_DECIDE_PLAN_FUSED_OPS_H_
#define NPU_PRECISION_GRAPH_PASSES_DECIDE_PLAN_FUSED_OPS_H_

#include "graph_passes/decide/decide_context.h"
#include "graph_passes/decide/decision.h"
#include "graph_passes/graph/graph_view.h"

namespace npu_precision {

// True where `graph` has an op that stands for several (see OpsOf).
bool HasFusedOps(const tensorflow::GraphDef& graph);

// `planned` is `graph` with those fused nodes written as their parts whose parts are not all
// lowered by one kernel or all kept; `view` indexes `planned` and `decisions` are about it. The
// same decisions come out as if the remapper had never fused anything.
tensorflow::Status PlanFusedOps(const tensorflow::GraphDef& graph, const DecideContext& context,
                                tensorflow::GraphDef* planned, GraphView* view,
                                Decisions* decisions);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_DECIDE_PLAN_FUSED_OPS_H_
