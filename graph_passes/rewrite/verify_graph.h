// Checks the graph after each pass that changed it. A graph that fails the check is never returned.
#ifndef NPU_PRECISION_GRAPH_PASSES_REWRITE_VERIFY_GRAPH_H_
#define NPU_PRECISION_GRAPH_PASSES_REWRITE_VERIFY_GRAPH_H_

#include <set>
#include <string>

#include "graph_passes/graph/graph_view.h"

namespace npu_precision {

// Checks that the two dtypes of every edge agree; that the ops on one handle agree about its
// elements, if they did in `before`; and that every node of `preserved` in `before` still exists
// and yields the same dtypes, or is a NoOp if it is not one of `fetched`, whose values the caller
// reads. An Internal error names the first wrong edge, handle or node. `view` becomes the index of
// `after`.
tensorflow::Status VerifyGraph(const GraphView& before, const std::set<std::string>& preserved,
                               const std::set<std::string>& fetched,
                               const tensorflow::GraphDef& after, GraphView* view);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_REWRITE_VERIFY_GRAPH_H_
