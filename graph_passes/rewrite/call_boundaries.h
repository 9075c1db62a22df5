// Moves Casts out of functions: a tensor that a function receives or returns in float32 and casts
// at once crosses the call in the low type.
//
//   y = While(x, w, body)                          y = While(Cast(x), Cast(w), body)
//   body(x, w): return Cast(op(Cast(x), Cast(w))), w   becomes   body(x, w): return op(x, w), w
//
// The body of a While then casts its weights once and not in every iteration, and carries its state
// in the low type. If a Cast to float32 and a Cast back meet at a call, both are dropped. The
// optimizer decides about each function by itself, so it cannot do this.
//
// The values are the same except in one case: a loop that runs no iteration yields its rounded
// state.
//
// Refused: a function with several callers, or one that is used by its name elsewhere (exported,
// the gradient of another, or one of several that implement the same layer); a tensor with a reader
// in a function that is not a Cast to one low type; Casts with control dependencies; tensors that
// the caller of the graph fetches.
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

// `known` are functions that are used by name; `kept` the nodes that must stay with their dtype.
// `copies_constants`: loops also get constants of their own, as constants_into_loops.h says.
// Returns an entry for each call that changed, with the name of the body that it is in.
std::vector<std::pair<std::string, RewriteEntry>> MoveCastsOutOfCalls(
    const std::set<std::string>& known, const MovableCasts::Kept& kept, bool copies_constants,
    tensorflow::GraphDef* graph);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_REWRITE_CALL_BOUNDARIES_H_
