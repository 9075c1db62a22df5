// Moves a Reshape from between a MatMul and its BiasAdd to behind both, and behind the activation:
//
//   MatMul -> Reshape -> BiasAdd -> Gelu   becomes   MatMul -> BiasAdd -> Gelu -> Reshape
//
// Keras' Dense reshapes an input of three dimensions to two and back before it adds the bias, and
// TensorFlow fuses a bias, and an activation, into the MatMul that they follow at once only.
//
// Refused: where the weights or the bias are not constants, or not as wide as each other; where
// something else reads the MatMul or the Reshape, or waits for it; where the caller fetches or
// feeds a node whose shape changes; nodes that wait for others, or of several devices or dtypes.
#ifndef NPU_PRECISION_GRAPH_PASSES_REWRITE_SINK_RESHAPES_H_
#define NPU_PRECISION_GRAPH_PASSES_REWRITE_SINK_RESHAPES_H_

#include <vector>

#include "graph_passes/decide/decide_context.h"
#include "graph_passes/graph/constant_values.h"
#include "graph_passes/graph/graph_view.h"
#include "graph_passes/rewrite/rewrite_entry.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace npu_precision {

// Of the ops of a low type. `view` is of `graph`; `values` has those that it lacks. Where nothing
// is added to `sunk`, `graph` is untouched.
void SinkReshapes(const GraphView& view, const ConstantValues& values, const DecideContext& context,
                  tensorflow::GraphDef* graph, std::vector<RewriteEntry>* sunk);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_REWRITE_SINK_RESHAPES_H_
