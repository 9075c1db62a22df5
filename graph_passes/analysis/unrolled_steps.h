// Finds loops that the user's program unrolled: many like steps, one after the other, each of which
// adds to the value of the one before.
#ifndef NPU_PRECISION_GRAPH_PASSES_ANALYSIS_UNROLLED_STEPS_H_
#define NPU_PRECISION_GRAPH_PASSES_ANALYSIS_UNROLLED_STEPS_H_

#include <vector>

#include "graph_passes/analysis/gains.h"
#include "graph_passes/graph/constant_values.h"
#include "graph_passes/graph/graph_view.h"

namespace npu_precision {

// Returns the nodes on paths with a gain of about 1 that have at least 16 like nodes that add to
// the value, from the first of these to the last. Nodes are alike if the same ops compute them from
// the same weights, whatever their scalar constants; a limited number of ops back is compared. So
// the residual sums of a network are not alike, because each has weights of its own.
std::vector<int> UnrolledSteps(const GraphView& view, const ConstantValues& values, Gains* gains);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_ANALYSIS_UNROLLED_STEPS_H_
