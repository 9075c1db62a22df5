// Keeps the gradient of an op that the user kept in float32.
//
// Users keep a product in float32, by its name or in keep_dtype_scope(), because its values do not
// fit, and those of its gradient fit even less. An op type on a list needs no such rule: the op
// type of the gradient has a list of its own.
#ifndef NPU_PRECISION_GRAPH_PASSES_DECIDE_FOLLOWS_FORWARD_H_
#define NPU_PRECISION_GRAPH_PASSES_DECIDE_FOLLOWS_FORWARD_H_

#include <vector>

#include "graph_passes/decide/classify_nodes.h"
#include "graph_passes/decide/kept_group.h"
#include "graph_passes/graph/graph_view.h"

namespace npu_precision {

// Returns the groups of gradient nodes whose forward op is kept by its name or mark, or is itself
// such a gradient node (reason follows_forward; the cause is the forward op).
std::vector<KeptGroup> FollowsForward(const GraphView& view, const NodeClasses& classes);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_DECIDE_FOLLOWS_FORWARD_H_
