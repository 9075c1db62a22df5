// Finds operands that have no vote because they are small beside another one. In
//
//   x [32, 56, 56, 64] * scale [64]
//
// the scale comes from a Rsqrt, which keeps float32. If it had a vote, the image would be cast to
// float32, and back for the next convolution; so the scale is cast instead.
#ifndef NPU_PRECISION_GRAPH_PASSES_DECIDE_SMALL_OPERANDS_H_
#define NPU_PRECISION_GRAPH_PASSES_DECIDE_SMALL_OPERANDS_H_

#include <set>
#include <utility>

#include "graph_passes/decide/classify_nodes.h"
#include "graph_passes/decide/decide_context.h"
#include "graph_passes/decide/decision.h"
#include "graph_passes/graph/constant_values.h"
#include "graph_passes/graph/graph_view.h"

namespace npu_precision {

using SmallOperands = std::set<std::pair<int, int>>;  // by node id and number of the input

// Returns the inputs of gray sums, differences and products on GPUs whose tensor has a sixteenth of
// the elements of another input's, or less, but more than one. Not those whose form does not tell
// that a low type holds them (see moderate_scales.h), or that are computed by a node that a keep
// rule keeps for its values, or that the user's files or scopes name. On a CPU, where an
// elementwise op in a low type is no faster, kernels are weighed: see cheapest_dtypes.h.
SmallOperands FindSmallOperands(const GraphView& view, const ConstantValues& values,
                                const DecideContext& context, const NodeClasses& classes,
                                const Decisions& decisions);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_DECIDE_SMALL_OPERANDS_H_
