// Keeps float32 in average pools, and their gradients, whose kernels add up many values in the low
// type.
#ifndef NPU_PRECISION_GRAPH_PASSES_DECIDE_WINDOW_SUMS_H_
#define NPU_PRECISION_GRAPH_PASSES_DECIDE_WINDOW_SUMS_H_

#include <vector>

#include "graph_passes/decide/decide_context.h"
#include "graph_passes/decide/kept_group.h"
#include "graph_passes/graph/graph_view.h"

namespace npu_precision {

// Returns, with reason adds_windows, the groups
// - of AvgPoolGrad and AvgPool3DGrad if more than 32 windows overlap: the kernels add the windows
// of
//   a place one by one, in the low type,
// - of AvgPool and AvgPool3D if a window has more than 512 places, 64 in bfloat16, unless oneDNN
//   computes them: TensorFlow's own kernels add the places in the low type.
// `make bench SUITE=kernel_sums` measures the errors.
std::vector<KeptGroup> WindowSums(const GraphView& view, const DecideContext& context);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_DECIDE_WINDOW_SUMS_H_
