// must_keep_origin_dtype: a graph that the target cannot run as it is, is an error.
#ifndef NPU_PRECISION_GRAPH_PASSES_DECIDE_CHECK_ORIGIN_H_
#define NPU_PRECISION_GRAPH_PASSES_DECIDE_CHECK_ORIGIN_H_

#include "graph_passes/decide/decide_context.h"
#include "graph_passes/graph/graph_view.h"
#include "tensorflow/core/lib/core/status.h"

namespace npu_precision {

// InvalidArgument names the nodes whose dtype the target does not support.
tensorflow::Status CheckOriginSupported(const GraphView& view, const DecideContext& context);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_DECIDE_CHECK_ORIGIN_H_
