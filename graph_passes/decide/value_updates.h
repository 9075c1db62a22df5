// Finds small steps of a factor of a matrix product that is no variable: the inner steps of
// meta-learning, and other gradient descents in a graph.
#ifndef NPU_PRECISION_GRAPH_PASSES_DECIDE_VALUE_UPDATES_H_
#define NPU_PRECISION_GRAPH_PASSES_DECIDE_VALUE_UPDATES_H_

#include <vector>

#include "graph_passes/decide/decide_context.h"
#include "graph_passes/decide/kept_group.h"
#include "graph_passes/graph/constant_values.h"
#include "graph_passes/graph/graph_view.h"

namespace npu_precision {

// Returns, with reason updates_value and the source as the cause, the groups of w - c * g and
// w + c * g, and of c * g, if c is one number and w is a source that a matrix product reads, or
// another such sum. Paths end at nodes with `ends_path` set, by node id.
std::vector<KeptGroup> ValueUpdates(const GraphView& view, const ConstantValues& values,
                                    const DecideContext& context,
                                    const std::vector<bool>& ends_path);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_DECIDE_VALUE_UPDATES_H_
