// What differs from iteration to iteration of a loop, or from call to call of a function.
#ifndef NPU_PRECISION_GRAPH_PASSES_ANALYSIS_VARYING_NODES_H_
#define NPU_PRECISION_GRAPH_PASSES_ANALYSIS_VARYING_NODES_H_

#include <set>
#include <string>
#include <vector>

#include "graph_passes/graph/graph_view.h"

namespace npu_precision {

// By node id: whether its values depend on a loop variable that changes, on an argument of the
// function that is not handed out as it came, on what is fed, or on an op with state of its own.
// Weights do not vary: they are as good as the same in all iterations. `fed` are names of nodes.
std::vector<bool> VaryingNodes(const GraphView& view, const std::set<std::string>& fed);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_ANALYSIS_VARYING_NODES_H_
