// Finds the nodes that may run more than once: those in the loops of TensorFlow 1, which are nodes
// of the graph.
#ifndef NPU_PRECISION_GRAPH_PASSES_ANALYSIS_LOOP_NODES_H_
#define NPU_PRECISION_GRAPH_PASSES_ANALYSIS_LOOP_NODES_H_

#include <vector>

#include "graph_passes/graph/graph_view.h"

namespace npu_precision {

// By node id: whether the node depends on an Enter and not only on an Exit. An Enter is in a loop,
// because it yields its value there.
std::vector<bool> LoopNodes(const GraphView& view);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_ANALYSIS_LOOP_NODES_H_
