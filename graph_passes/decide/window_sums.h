// Keeps float32 in gradients of average pools whose kernels add up many values in the low type.
#ifndef NPU_PRECISION_GRAPH_PASSES_DECIDE_WINDOW_SUMS_H_
#define NPU_PRECISION_GRAPH_PASSES_DECIDE_WINDOW_SUMS_H_

#include <vector>

#include "graph_passes/decide/kept_group.h"
#include "graph_passes/graph/graph_view.h"

namespace npu_precision {

// Returns, with reason adds_windows, the groups of AvgPoolGrad and AvgPool3DGrad if more than 32
// windows overlap. The kernels add the windows of a place one by one, in the low type:
// `make bench SUITE=kernel_sums` measures the error.
std::vector<KeptGroup> WindowSums(const GraphView& view);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_DECIDE_WINDOW_SUMS_H_
