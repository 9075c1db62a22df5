// Keeps float32 where a constant makes values large beside what they tell apart: numbers that count
// rows, pixels or samples, and an offset such as 273.15 or 1000.
#ifndef NPU_PRECISION_GRAPH_PASSES_DECIDE_OFFSET_RULES_H_
#define NPU_PRECISION_GRAPH_PASSES_DECIDE_OFFSET_RULES_H_

#include <vector>

#include "graph_passes/decide/decide_context.h"
#include "graph_passes/decide/kept_group.h"
#include "graph_passes/graph/constant_values.h"
#include "graph_passes/graph/graph_view.h"

namespace npu_precision {

// Returns two kinds of groups, whose cause is the constant. Reason counting_constant: matrix
// products and convolutions by a constant that counts, and all other groups that compute with one
// whose steps are small for the low type. Reason large_offset: groups that add a scalar of 16 or
// more, or subtract one, or subtract from it. Both kinds include the groups that such a sum reaches
// through moves, choices, sums, differences and means, and the batch norms that read it. Paths end
// at nodes with `ends_path` set, by node id.
std::vector<KeptGroup> OffsetRules(const GraphView& view, const ConstantValues& values,
                                   const DecideContext& context,
                                   const std::vector<bool>& ends_path);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_DECIDE_OFFSET_RULES_H_
