// The loop variables of the body of a functional While: what the body returns in a place is its
// argument in that place in the next iteration.
#ifndef NPU_PRECISION_GRAPH_PASSES_ANALYSIS_NEXT_ARGUMENTS_H_
#define NPU_PRECISION_GRAPH_PASSES_ANALYSIS_NEXT_ARGUMENTS_H_

#include <vector>

#include "graph_passes/graph/graph_view.h"

namespace npu_precision {

constexpr int kNoArgument = -1;

// The arguments of a function, in their order. TensorFlow 1.15 presents them as placeholders.
std::vector<int> ArgumentsOf(const GraphView& view);

// By node id: for a result, the argument in the same place; kNoArgument for all other nodes.
std::vector<int> NextArguments(const GraphView& view);

// The place of an argument among the arguments, or of a result among the results; -1 if it is not
// known.
int PlaceOf(const GraphView& view, int id);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_ANALYSIS_NEXT_ARGUMENTS_H_
