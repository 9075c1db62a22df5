// Finds nodes whose values differ from iteration to iteration of a loop, or from call to call of a
// function.
#ifndef NPU_PRECISION_GRAPH_PASSES_ANALYSIS_VARYING_NODES_H_
#define NPU_PRECISION_GRAPH_PASSES_ANALYSIS_VARYING_NODES_H_

#include <set>
#include <string>
#include <vector>

#include "graph_passes/graph/graph_view.h"

namespace npu_precision {

// Returns, by node id, whether the values of the node depend on a loop variable that changes, on an
// argument that the function does not return unchanged, on a fed node, or on an op with state of
// its own. Weights do not vary: they are practically the same in all iterations. `fed` are names of
// nodes.
std::vector<bool> VaryingNodes(const GraphView& view, const std::set<std::string>& fed);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_ANALYSIS_VARYING_NODES_H_
