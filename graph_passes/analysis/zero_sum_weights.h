// Finds products by weights that sum to zero and were written by hand: a Laplacian, a difference, a
// derivative. The product takes away what its input has in common, exactly.
#ifndef NPU_PRECISION_GRAPH_PASSES_ANALYSIS_ZERO_SUM_WEIGHTS_H_
#define NPU_PRECISION_GRAPH_PASSES_ANALYSIS_ZERO_SUM_WEIGHTS_H_

#include <vector>

#include "graph_passes/analysis/linear_paths.h"
#include "graph_passes/graph/constant_values.h"
#include "graph_passes/graph/graph_view.h"

namespace npu_precision {

struct ZeroSumProduct {
  int product;
  int weights;  // the Const, or the Sub of diag(sum(A)) - A
};

// Finds all such products, in the order of their names: matrix products and convolutions by a
// constant whose weights sum to zero, but for their rounding, for one of the first eight outputs: a
// bank may have a blur beside its derivatives. The weights of that output also must be at most
// four, or have at most half as many magnitudes as there are weights.
// So those of a trained network that standardizes its weights do not count. Matrix products by a
// Laplacian diag(sum(A)) - A that the graph computes count as well.
std::vector<ZeroSumProduct> ZeroSumProducts(const GraphView& view, const ConstantValues& values,
                                            const LinearPaths& paths);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_ANALYSIS_ZERO_SUM_WEIGHTS_H_
