// Determines whether a scale or an offset is computed from variables in such a form that a low type
// holds it, as far as a form tells. That of a batch norm with a tiny epsilon is huge where a
// channel is always zero, and float16 holds no number above 65504.
#ifndef NPU_PRECISION_GRAPH_PASSES_ANALYSIS_MODERATE_SCALES_H_
#define NPU_PRECISION_GRAPH_PASSES_ANALYSIS_MODERATE_SCALES_H_

#include <functional>
#include <set>
#include <string>

#include "graph_passes/graph/constant_values.h"
#include "graph_passes/graph/graph_view.h"

namespace npu_precision {

// Whether the tensor is a source, such as a variable; or made of sources by sums, differences and
// products, of which one factor at most may be the Rsqrt of a source and a constant that is not
// tiny. Constants count as sources if they are neither large nor tiny, and not in `fed`. `may_use`,
// if given, is asked about each node that computes, by id.
bool IsModerateScale(const GraphView& view, const ConstantValues& values,
                     const std::set<std::string>& fed, const OutputPort& tensor,
                     const std::function<bool(int)>& may_use = nullptr);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_ANALYSIS_MODERATE_SCALES_H_
