// Decides each node's precision from options, lists and predecessors. The graph never changes.
#ifndef NPU_PRECISION_GRAPH_PASSES_DECIDE_DECIDE_PRECISION_H_
#define NPU_PRECISION_GRAPH_PASSES_DECIDE_DECIDE_PRECISION_H_

#include "graph_passes/decide/decide_context.h"
#include "graph_passes/decide/decision.h"
#include "graph_passes/graph/constant_values.h"
#include "graph_passes/graph/graph_view.h"

namespace npu_precision {

// Decides every node of `view` by the rule of the mode. `values` has the large values of constants
// that the view's graph lacks. Returns InvalidArgument if node patterns of the mixlist contradict
// each other, or if the target lacks a dtype that must_keep_origin_dtype keeps.
tensorflow::Status DecidePrecision(const GraphView& view, const ConstantValues& values,
                                   const DecideContext& context, Decisions* decisions);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_DECIDE_DECIDE_PRECISION_H_
