// Inputs and outputs of a graph become of the low type, where all that is between them and what
// computes in it is a Cast:
//
//   x(float32) -> Cast -> MatMul(float16) -> Cast(named out)   becomes   x(float16) ->
//   MatMul(float16, named out)
//
// Of the nodes that the caller marks: placeholders, and what it fetches. Refused: a placeholder
// that something reads in float32, an output that was not lowered.
#ifndef NPU_PRECISION_GRAPH_PASSES_REWRITE_LOWER_IO_TYPES_H_
#define NPU_PRECISION_GRAPH_PASSES_REWRITE_LOWER_IO_TYPES_H_

#include <set>
#include <string>
#include <vector>

#include "graph_passes/graph/graph_view.h"
#include "graph_passes/rewrite/rewrite_entry.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace npu_precision {

// `view` is of `graph`, which InsertCasts made. Takes outputs that changed out of `preserved`.
// Where nothing is added to `lowered`, `graph` is untouched.
void LowerIoTypes(const GraphView& view, tensorflow::GraphDef* graph,
                  std::set<std::string>* preserved, std::vector<RewriteEntry>* lowered);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_REWRITE_LOWER_IO_TYPES_H_
