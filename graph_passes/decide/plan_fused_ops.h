// Decides fused ops as the ops that they stand for. A fused op stays whole if all its parts agree.
#ifndef NPU_PRECISION_GRAPH_PASSES_DECIDE_PLAN_FUSED_OPS_H_
#define NPU_PRECISION_GRAPH_PASSES_DECIDE_PLAN_FUSED_OPS_H_

#include "graph_passes/decide/decide_context.h"
#include "graph_passes/decide/decision.h"
#include "graph_passes/graph/constant_values.h"
#include "graph_passes/graph/graph_view.h"

namespace npu_precision {

// Whether `graph` has an op that stands for several (see OpsOf).
bool HasFusedOps(const tensorflow::GraphDef& graph);

// Whether a fused node may be replaced by its parts. A preserved node with several outputs must
// stay whole, because no single part has all of them.
bool MaySplit(const tensorflow::NodeDef& node, const DecideContext& context);

// Writes `planned`: `graph` with some fused nodes replaced by their parts. A fused node stays whole
// if all parts are kept, or if all are lowered and one kernel computes them. `view` and `decisions`
// are about `planned`. The decisions are the same as if the remapper had never fused anything.
tensorflow::Status PlanFusedOps(const tensorflow::GraphDef& graph, const ConstantValues& values,
                                const DecideContext& context, tensorflow::GraphDef* planned,
                                GraphView* view, Decisions* decisions);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_DECIDE_PLAN_FUSED_OPS_H_
