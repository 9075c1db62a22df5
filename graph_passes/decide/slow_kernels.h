// Keeps float32 in nodes whose kernel is much slower in the low type.
#ifndef NPU_PRECISION_GRAPH_PASSES_DECIDE_SLOW_KERNELS_H_
#define NPU_PRECISION_GRAPH_PASSES_DECIDE_SLOW_KERNELS_H_

#include <vector>

#include "graph_passes/decide/decide_context.h"
#include "graph_passes/decide/kept_group.h"
#include "graph_passes/graph/graph_view.h"

namespace npu_precision {

// Returns, with reason slow_kernel, the groups of nodes in bfloat16 on a CPU with oneDNN, which has
// no vector code for them:
// - a fused batch norm, or its gradient, whose number of channels is no multiple of 16: 72 channels
//   take 4 to 15 times as long as in float32,
// - the gradient of a depthwise convolution to its input, with strides: 8 to 25 times. Its gradient
//   to the filter is on the black list of CPUs.
std::vector<KeptGroup> SlowKernels(const GraphView& view, const DecideContext& context);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_DECIDE_SLOW_KERNELS_H_
