// Tensors that are the value of a variable, with its very buffer.
#ifndef NPU_PRECISION_GRAPH_PASSES_ANALYSIS_VARIABLE_BUFFERS_H_
#define NPU_PRECISION_GRAPH_PASSES_ANALYSIS_VARIABLE_BUFFERS_H_

#include <set>
#include <string>

#include "graph_passes/graph/graph_view.h"

namespace npu_precision {

// Whether the tensor is read from a resource variable, perhaps with another shape, and nothing on
// the way is fed.
bool HasBufferOfVariable(const GraphView& view, const std::set<std::string>& fed,
                         OutputPort tensor);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_ANALYSIS_VARIABLE_BUFFERS_H_
