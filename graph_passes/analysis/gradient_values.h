// Determines whether a tensor is a gradient: by the names that TensorFlow gives to gradient ops
// (see forward_names.h), and through sums and reshapes of gradients.
#ifndef NPU_PRECISION_GRAPH_PASSES_ANALYSIS_GRADIENT_VALUES_H_
#define NPU_PRECISION_GRAPH_PASSES_ANALYSIS_GRADIENT_VALUES_H_

#include "graph_passes/graph/graph_view.h"

namespace npu_precision {

bool IsGradient(const GraphView& view, const OutputPort& tensor);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_ANALYSIS_GRADIENT_VALUES_H_
