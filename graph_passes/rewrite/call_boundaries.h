// Moves Casts out of functions: a tensor that a function receives or returns in float32 and casts
// at once crosses the call in the low type.
//
//   y = While(x, w, body)                          y = While(Cast(x), Cast(w), body)
//   body(x, w): return Cast(op(Cast(x), Cast(w))), w   becomes   body(x, w): return op(x, w), w
//
// The body of a While then casts its weights once and not in every iteration, and carries its state
// in the low type. A pair of Casts to float32 and back that meets at a call is dropped. The
// optimizer decides about each function by itself, so it cannot do this.
//
// The values are the same but for one case: a loop that runs no iteration yields its rounded state.
//
// Refused: a function with several callers, or one that others know by its name (exported, the
// gradient of another, or one of several that implement the same layer); a tensor that anything but
// Casts to one low type reads in a function; Casts with control dependencies; what the caller of
// the graph fetches.
#ifndef NPU_PRECISION_GRAPH_PASSES_REWRITE_CALL_BOUNDARIES_H_
#define NPU_PRECISION_GRAPH_PASSES_REWRITE_CALL_BOUNDARIES_H_

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "graph_passes/rewrite/movable_casts.h"
#include "graph_passes/rewrite/rewrite_entry.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace npu_precision {

// `known` are functions that others know by name; `kept` the nodes that must stay with their dtype.
// `copies_constants`: loops get constants of their own, too, as constants_into_loops.h says.
// Returns an entry for each call that changed, beside the name of the body that it is in.
std::vector<std::pair<std::string, RewriteEntry>> MoveCastsOutOfCalls(
    const std::set<std::string>& known, const MovableCasts::Kept& kept, bool copies_constants,
    tensorflow::GraphDef* graph);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_REWRITE_CALL_BOUNDARIES_H_
