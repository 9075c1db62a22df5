// Keeps float32 in products whose values cancel: with another term, or by weights that sum to zero.
#ifndef NPU_PRECISION_GRAPH_PASSES_DECIDE_CANCELLING_PRODUCTS_H_
#define NPU_PRECISION_GRAPH_PASSES_DECIDE_CANCELLING_PRODUCTS_H_

#include <vector>

#include "graph_passes/decide/decide_context.h"
#include "graph_passes/decide/kept_group.h"
#include "graph_passes/graph/constant_values.h"
#include "graph_passes/graph/graph_view.h"

namespace npu_precision {

// Returns, with reason before_magnifier, the groups of FindCancellingTerms and ZeroSumProducts. The
// cause is the sum, or the weights. Paths end at nodes with `ends_path` set, by node id.
std::vector<KeptGroup> CancellingProducts(const GraphView& view, const ConstantValues& values,
                                          const DecideContext& context,
                                          const std::vector<bool>& ends_path);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_DECIDE_CANCELLING_PRODUCTS_H_
