// Marks of autocast() and of amp's decorators, for nodes that were not made in the scope and belong
// to some that were.
#ifndef NPU_PRECISION_GRAPH_PASSES_ANALYSIS_INHERITED_MARKS_H_
#define NPU_PRECISION_GRAPH_PASSES_ANALYSIS_INHERITED_MARKS_H_

#include <set>

#include "graph_passes/graph/graph_view.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/framework/types.pb.h"

namespace npu_precision {

bool HasInheritedMarks(const tensorflow::GraphDef& graph);

// The dtypes that scopes of autocast() ask for; DT_FLOAT where one was switched off.
std::set<tensorflow::DataType> AutocastDtypes(const tensorflow::GraphDef& graph);

// Gives nodes of `graph`, which `view` indexes, the marks of the node that they belong to: a
// gradient those of its forward op, and an Identity those of what it copies. Identity ops stand
// where Grappler inlined a function.
void InheritMarks(const GraphView& view, tensorflow::GraphDef* graph);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_ANALYSIS_INHERITED_MARKS_H_
