// Ops whose values the low type cannot hold keep float32.
//
// A constant that guards against zero or one (1e-12 under a root, 1.0000001 - p), or that stands
// for minus infinity, is no guard any more where the low type makes 0, 1 or infinity of it, or a
// subnormal number. And a value that is known to be too large becomes infinity.
#ifndef NPU_PRECISION_GRAPH_PASSES_DECIDE_RANGE_RULES_H_
#define NPU_PRECISION_GRAPH_PASSES_DECIDE_RANGE_RULES_H_

#include <vector>

#include "graph_passes/analysis/value_range.h"
#include "graph_passes/decide/decide_context.h"
#include "graph_passes/decide/kept_group.h"
#include "graph_passes/graph/constant_values.h"
#include "graph_passes/graph/graph_view.h"

namespace npu_precision {

// Whether the low type makes 0, ±1 or an infinity of a value that is none of these, or makes it
// subnormal.
bool LosesMeaning(float value, tensorflow::DataType low_type);

// The groups that read such a constant, but for matrix and convolution ops, whose constants are
// weights (reason guard_constant; the cause is the constant). It may be moved before, but by no
// node with `ends_path` set, by node id. And those that read or yield a tensor whose range has a
// finite end that the low type cannot hold (reason leaves_range).
std::vector<KeptGroup> RangeRules(const GraphView& view, const ConstantValues& values,
                                  const std::vector<ValueRange>& ranges,
                                  const DecideContext& context, const std::vector<bool>& ends_path);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_DECIDE_RANGE_RULES_H_
