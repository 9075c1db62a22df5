// Writes padding SAME for VALID where it is the same: for convolutions with a kernel of 1x1.
//
// TensorFlow fuses a residual Add, and the activation behind it, into the low-precision
// convolution before it only where it can tell that both operands of the Add have one shape. With
// an unknown batch or image size it can for SAME, whose output is as large as its input, and not
// for VALID.
#ifndef NPU_PRECISION_GRAPH_PASSES_REWRITE_SAME_PADDING_H_
#define NPU_PRECISION_GRAPH_PASSES_REWRITE_SAME_PADDING_H_

#include <vector>

#include "graph_passes/decide/decide_context.h"
#include "graph_passes/graph/constant_values.h"
#include "graph_passes/graph/graph_view.h"
#include "graph_passes/rewrite/rewrite_entry.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace npu_precision {

// Of the convolutions of a low type, whose kernels are constants. `view` is of `graph`; `values`
// has those that it lacks.
void WriteSamePadding(const GraphView& view, const ConstantValues& values,
                      const DecideContext& context, tensorflow::GraphDef* graph,
                      std::vector<RewriteEntry>* rewrites);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_REWRITE_SAME_PADDING_H_
