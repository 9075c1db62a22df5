// Finds variances and covariances written by hand: mean(x * y) - mean(x) * mean(y).
//
// If the spread is small compared to the mean, the two sides are almost equal. Their difference
// then has only the digits in which they differ.
#ifndef NPU_PRECISION_GRAPH_PASSES_ANALYSIS_DIFFERENCES_OF_SQUARES_H_
#define NPU_PRECISION_GRAPH_PASSES_ANALYSIS_DIFFERENCES_OF_SQUARES_H_

#include <vector>

#include "graph_passes/graph/graph_view.h"

namespace npu_precision {

struct DifferenceOfSquares {
  int difference;  // the Sub, or the Add of a negated side
  // The difference, and the nodes that compute its inputs from the products under a mean and from
  // the means.
  std::vector<int> nodes;
};

// Finds all such differences, in the order of their names. A mean is a Mean, a Sum, a pooling or a
// convolution (a window of SSIM). One side must be a mean of a product, or of a sum of two
// products. The other must be a product of means, or a sum of two. Both may be reshaped, and have
// constant terms and factors.
std::vector<DifferenceOfSquares> DifferencesOfSquares(const GraphView& view);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_ANALYSIS_DIFFERENCES_OF_SQUARES_H_
