// Propagates the marks of autocast() and of amp's decorators to nodes that were made outside of the
// scope but belong to nodes inside.
#ifndef NPU_PRECISION_GRAPH_PASSES_ANALYSIS_INHERITED_MARKS_H_
#define NPU_PRECISION_GRAPH_PASSES_ANALYSIS_INHERITED_MARKS_H_

#include <set>

#include "graph_passes/graph/graph_view.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/framework/types.pb.h"

namespace npu_precision {

bool HasInheritedMarks(const tensorflow::GraphDef& graph);

// The dtypes that autocast() scopes request; DT_FLOAT for a scope that is switched off.
std::set<tensorflow::DataType> AutocastDtypes(const tensorflow::GraphDef& graph);

// Gives nodes of `graph`, which `view` indexes, the marks of the node that they belong to. A
// gradient gets the marks of its forward op. An Identity gets the marks of the node that it copies:
// Grappler puts Identity ops where it inlined a function.
void InheritMarks(const GraphView& view, tensorflow::GraphDef* graph);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_ANALYSIS_INHERITED_MARKS_H_
