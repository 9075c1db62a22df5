// Finds nodes with a dtype that the target has no kernels for.
#ifndef NPU_PRECISION_GRAPH_PASSES_DECIDE_MISSING_KERNELS_H_
#define NPU_PRECISION_GRAPH_PASSES_DECIDE_MISSING_KERNELS_H_

#include "graph_passes/decide/classify_nodes.h"
#include "graph_passes/decide/decide_context.h"
#include "graph_passes/decide/decision.h"
#include "graph_passes/graph/graph_view.h"
#include "tensorflow/core/lib/core/status.h"

namespace npu_precision {

// Checks the dtypes for must_keep_origin_dtype. InvalidArgument names the nodes whose dtype the
// target does not support.
tensorflow::Status CheckOriginSupported(const GraphView& view, const DecideContext& context,
                                        const NodeClasses& classes);

// Marks the nodes that a list or a rule keeps in float32 although the target has no such kernel,
// and adds a warning for each reason.
void WarnOfMissingKernels(const GraphView& view, const NodeClasses& classes, Decisions* decisions);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_DECIDE_MISSING_KERNELS_H_
