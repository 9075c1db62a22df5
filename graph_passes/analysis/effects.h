// Effects: what a node does beside the tensors that it yields.
#ifndef NPU_PRECISION_GRAPH_PASSES_ANALYSIS_EFFECTS_H_
#define NPU_PRECISION_GRAPH_PASSES_ANALYSIS_EFFECTS_H_

#include "graph_passes/graph/graph_view.h"

namespace npu_precision {

inline bool MayHaveEffect(const GraphView& view, int id) {
  return view.op_def(id) == nullptr || view.op_def(id)->is_stateful() || view.calls_function(id);
}

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_ANALYSIS_EFFECTS_H_
