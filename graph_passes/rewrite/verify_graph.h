// The check that runs after each changing pass: a graph that fails it is never returned.
#ifndef NPU_PRECISION_GRAPH_PASSES_REWRITE_VERIFY_GRAPH_H_
#define NPU_PRECISION_GRAPH_PASSES_REWRITE_VERIFY_GRAPH_H_

#include <set>
#include <string>

#include "graph_passes/graph/graph_view.h"

namespace npu_precision {

// Every edge's two dtypes agree; so do the ops on one handle about its elements, where they did in
// `before`; and every node of `preserved` that `before` has still exists and yields the same
// dtypes. An Internal error names the first edge, handle or node that is wrong. `view` becomes one
// of `after`.
tensorflow::Status VerifyGraph(const GraphView& before, const std::set<std::string>& preserved,
                               const tensorflow::GraphDef& after, GraphView* view);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_REWRITE_VERIFY_GRAPH_H_
