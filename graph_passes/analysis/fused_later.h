// Finds elementwise nodes that TensorFlow's remapper fuses on a CPU with oneDNN into the node
// before them: the fused kernel computes them in its registers, so that they cost nothing in any
// dtype.
//
//   Conv2D -> BiasAdd -> Relu; MatMul -> BiasAdd -> the nodes of a GELU; batch norm -> Relu;
//   a LayerNorm's Mul and Add of weights; x * Sigmoid(x)
//
// The remapper does not fuse all that is found here: it asks for shapes and dtypes too.
#ifndef NPU_PRECISION_GRAPH_PASSES_ANALYSIS_FUSED_LATER_H_
#define NPU_PRECISION_GRAPH_PASSES_ANALYSIS_FUSED_LATER_H_

#include <set>
#include <string>
#include <vector>

#include "graph_passes/graph/graph_view.h"

namespace npu_precision {

// By node id. The caller reads or replaces the outputs of the nodes in `fixed`.
std::vector<bool> FusedLater(const GraphView& view, const std::set<std::string>& fixed);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_ANALYSIS_FUSED_LATER_H_
