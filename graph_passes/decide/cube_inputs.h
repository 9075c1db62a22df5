// Decides for cube_fp16in_fp32out which inputs are rounded to the low type.
#ifndef NPU_PRECISION_GRAPH_PASSES_DECIDE_CUBE_INPUTS_H_
#define NPU_PRECISION_GRAPH_PASSES_DECIDE_CUBE_INPUTS_H_

#include "graph_passes/decide/decision.h"
#include "graph_passes/graph/graph_view.h"

namespace npu_precision {

// Lists the float32 inputs of matrix and convolution ops in `rounded_inputs` of `decisions`, to be
// rounded to `low_type`, and gives their nodes the reason. Nodes with another reason than
// kNotMatrixOrConvolution are fixed and stay as they are.
void DecideCubeInputs(const GraphView& view, tensorflow::DataType low_type, Decisions* decisions);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_DECIDE_CUBE_INPUTS_H_
