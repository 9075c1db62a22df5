// Reads from outside of a loop what the loop would hand on unchanged from iteration to iteration:
//
//   Enter -> Merge -> Switch -> body, NextIteration -> Merge   becomes   constant Enter -> body
//
// A lowered functional While carries its captures in such variables: weights, mostly, and each
// costs three ops in every iteration, and a Switch between a weight and its MatMul, which keeps
// TensorFlow from preparing the weight once.
//
// A node of the body must not run when the loop is over. So one that reads nothing else of the body
// reads the Switch as before, which then has the Enter for its input.
//
// Control inputs that say no more than that an iteration goes on are taken off nodes that a data
// input tells the same, because TensorFlow fuses no node that waits.
#ifndef NPU_PRECISION_GRAPH_PASSES_REWRITE_LOOP_CONSTANTS_H_
#define NPU_PRECISION_GRAPH_PASSES_REWRITE_LOOP_CONSTANTS_H_

#include <vector>

#include "graph_passes/decide/decide_context.h"
#include "graph_passes/graph/graph_view.h"
#include "graph_passes/rewrite/rewrite_entry.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace npu_precision {

// Where nothing is added to `rewrites`, `out` is untouched. It lacks the large values of constants.
void HoistLoopConstants(const GraphView& view, const tensorflow::GraphDef& graph,
                        const DecideContext& context, tensorflow::GraphDef* out,
                        std::vector<RewriteEntry>* rewrites);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_REWRITE_LOOP_CONSTANTS_H_
