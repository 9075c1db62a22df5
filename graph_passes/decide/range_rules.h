// Keeps float32 in ops whose values the low type cannot hold.
//
// Some constants guard against zero or one (1e-12 under a root, 1.0000001 - p), or stand for minus
// infinity. Such a constant no longer guards if the low type rounds it to 0, 1 or infinity, or to a
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

// Whether the low type rounds a value to 0, ±1 or an infinity although it is none of these, or
// makes it subnormal.
bool LosesMeaning(float value, tensorflow::DataType low_type);

// Returns two kinds of groups. Reason guard_constant: groups that read such a constant, which is
// the cause. Matrix and convolution ops are exempt, because their constants are weights. Other
// nodes may move the constant before it is read, but not nodes with `ends_path` set, by node id.
// Reason leaves_range: groups that read or yield a tensor whose range has a finite end that the low
// type cannot hold.
std::vector<KeptGroup> RangeRules(const GraphView& view, const ConstantValues& values,
                                  const std::vector<ValueRange>& ranges,
                                  const DecideContext& context, const std::vector<bool>& ends_path);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_DECIDE_RANGE_RULES_H_
