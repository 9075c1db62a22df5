// Finds sums whose terms cancel by their form, one of them a matrix product or convolution:
//
// - squared distances, x² + y² - 2xy,
// - covariances, XᵀY/n less the product of two means,
// - two linear maps of one measured tensor, such as x - Ax or Ax - Bx.
//
// If the difference is small, it has only the digits in which the terms differ.
#ifndef NPU_PRECISION_GRAPH_PASSES_ANALYSIS_CANCELLING_TERMS_H_
#define NPU_PRECISION_GRAPH_PASSES_ANALYSIS_CANCELLING_TERMS_H_

#include <vector>

#include "graph_passes/analysis/linear_paths.h"
#include "graph_passes/graph/constant_values.h"
#include "graph_passes/graph/graph_view.h"

namespace npu_precision {

struct CancellingTerms {
  int sum;
  // The sum, the terms, and what computes them from the tensor that they share: squares, multiples,
  // and sums with an offset.
  std::vector<int> nodes;
};

// Finds all such pairs of terms, in the order of the names of the sums. Both terms may be
// multiples, and stand in sums of sums.
std::vector<CancellingTerms> FindCancellingTerms(const GraphView& view,
                                                 const ConstantValues& values,
                                                 const LinearPaths& paths,
                                                 const std::vector<bool>& ends_path);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_ANALYSIS_CANCELLING_TERMS_H_
