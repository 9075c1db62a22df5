// Keeps float32 where a value that no matrix product made only moves, beside values that one made,
// to where it leaves the graph. It would be rounded for nothing: no product reads it.
//
//   tf.concat([boxes, tf.cast(tf.argmax(scores, -1), tf.float32)], -1)
//   tf.where(is_known, times, predicted_times)
//
// bfloat16 holds whole numbers up to 256 only, and in float16 a time of 100000 is infinite.
#ifndef NPU_PRECISION_GRAPH_PASSES_DECIDE_CARRIED_VALUES_H_
#define NPU_PRECISION_GRAPH_PASSES_DECIDE_CARRIED_VALUES_H_

#include <vector>

#include "graph_passes/decide/decide_context.h"
#include "graph_passes/decide/kept_group.h"
#include "graph_passes/graph/graph_view.h"

namespace npu_precision {

// Returns, with reason carries_value and the value as the cause, the groups of nodes that
// - yield values which the caller gave the graph, or that were computed from these without a matrix
//   product, or whole numbers, through ops that only select values, or scale and shift what was
//   selected by others of these or by weights,
// - yield values of a matrix product too, and
// - lead, through such ops, to a result or a fetched node.
// Constants and variables are no such values: rounding weights is what the modes are for. Nor are
// the variables of a loop. Paths end at nodes with `ends_path` set, by node id.
std::vector<KeptGroup> CarriedValues(const GraphView& view, const DecideContext& context,
                                     const std::vector<bool>& ends_path);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_DECIDE_CARRIED_VALUES_H_
