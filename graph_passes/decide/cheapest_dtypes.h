// Keeps float32 in lowered gray nodes where that takes less time, Casts included. Before, as the
// gate of a recurrent cell follows its product:
//
//   MatMul[bfloat16] -> AddV2[bfloat16] -> Sigmoid[bfloat16] -> Mul[bfloat16] -> MatMul[bfloat16]
//
// After, because Sigmoid and its like take several times as long in bfloat16 on a CPU:
//
//   MatMul[bfloat16] -> Cast -> AddV2 -> Sigmoid -> Mul -> Cast -> MatMul[bfloat16]
//
// What the nodes cost (kernel_costs.h) and what Casts between them cost is a network, and its
// minimum cut divides it at the least cost. Nodes stay lowered that the user's files name, that
// TensorFlow fuses (fused_later.h), that run on other devices than a CPU with oneDNN, and that are
// on no gray list; and so do nodes on both sides of a tensor of unknown size, as one.
#ifndef NPU_PRECISION_GRAPH_PASSES_DECIDE_CHEAPEST_DTYPES_H_
#define NPU_PRECISION_GRAPH_PASSES_DECIDE_CHEAPEST_DTYPES_H_

#include <vector>

#include "graph_passes/decide/classify_nodes.h"
#include "graph_passes/decide/decide_context.h"
#include "graph_passes/decide/group_state.h"
#include "graph_passes/decide/kept_group.h"
#include "graph_passes/graph/graph_view.h"

namespace npu_precision {

// Returns groups that keep float32, given the votes after gray is resolved: slow_kernel for nodes
// that are slower in the low type, casts_cost_more for those between them.
std::vector<KeptGroup> CheapestDtypes(const GraphView& view, const DecideContext& context,
                                      const NodeClasses& classes, const std::vector<int>& leader,
                                      const std::vector<GroupState>& groups);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_DECIDE_CHEAPEST_DTYPES_H_
