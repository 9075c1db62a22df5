// Determines whether a scale or an offset that is computed from variables is of moderate size, as
// far as the form tells, so that float16 holds it. A batch norm with a tiny epsilon has huge scales
// where a channel is always zero.
#ifndef NPU_PRECISION_GRAPH_PASSES_ANALYSIS_MODERATE_SCALES_H_
#define NPU_PRECISION_GRAPH_PASSES_ANALYSIS_MODERATE_SCALES_H_

#include <set>
#include <string>

#include "graph_passes/graph/constant_values.h"
#include "graph_passes/graph/graph_view.h"

namespace npu_precision {

// Whether the tensor is a source, such as a variable; Rsqrt of a sum with a constant that is not
// tiny; or made of such tensors by sums, differences and products. A constant in `fed` is not
// known.
bool IsModerateScale(const GraphView& view, const ConstantValues& values,
                     const std::set<std::string>& fed, const OutputPort& tensor);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_ANALYSIS_MODERATE_SCALES_H_
