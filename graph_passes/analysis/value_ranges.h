// Finds the values that each tensor may have, whatever is fed: from constants, from ops with
// bounded results, and from arithmetic on these.
//
// The analysis follows values through v1 loops and conditionals to a fixpoint. It never guesses.
// These are unknown: fed and captured values, weights, elements of lists, results of functions, and
// the outputs of ops that op_ranges.cc does not list. NaN and the maximum of nothing are left out.
#ifndef NPU_PRECISION_GRAPH_PASSES_ANALYSIS_VALUE_RANGES_H_
#define NPU_PRECISION_GRAPH_PASSES_ANALYSIS_VALUE_RANGES_H_

#include <set>
#include <string>
#include <vector>

#include "graph_passes/analysis/value_range.h"
#include "graph_passes/graph/constant_values.h"
#include "graph_passes/graph/element_counts.h"
#include "graph_passes/graph/graph_view.h"
#include "graph_passes/graph/tensor_shapes.h"

namespace npu_precision {

// Returns, by node id, the range of all outputs of a node together. `values` has the constants that
// the view's graph lacks. `fed` are names of nodes whose outputs the caller replaces. `elements` is
// asked only for sums of bounded values, and `shapes` only for products of such. Both may be empty.
std::vector<ValueRange> ValueRanges(const GraphView& view, const ConstantValues& values,
                                    const std::set<std::string>& fed, const ElementCounts& elements,
                                    const TensorShapes& shapes);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_ANALYSIS_VALUE_RANGES_H_
