// Finds matrix products that compute whole numbers: counts, or rows that a one-hot matrix picks.
//
// Above 256 (bfloat16) or 2048 (float16) a rounded whole number is another one, however many terms
// a product adds up. Products of layers are fractions, which activations or scales follow.
#ifndef NPU_PRECISION_GRAPH_PASSES_ANALYSIS_WHOLE_PRODUCTS_H_
#define NPU_PRECISION_GRAPH_PASSES_ANALYSIS_WHOLE_PRODUCTS_H_

#include <vector>

#include "graph_passes/analysis/value_range.h"
#include "graph_passes/graph/graph_view.h"

namespace npu_precision {

// Returns the products that compute `tensor`, which is read as whole numbers, and the nodes from
// there on. Between them are additions, products with whole numbers, Round, moves, and products of
// products. Paths end at nodes with `ends_path` set, by node id. Empty if there is no product.
std::vector<int> WholeProducts(const GraphView& view, const std::vector<ValueRange>& ranges,
                               const std::vector<bool>& ends_path, const OutputPort& tensor);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_ANALYSIS_WHOLE_PRODUCTS_H_
