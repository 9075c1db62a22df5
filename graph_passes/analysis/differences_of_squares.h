// Variances and covariances written by hand: mean(x * y) - mean(x) * mean(y).
//
// The two sides are almost equal where the spread is small next to the mean, and their difference
// has only the digits in which they differ.
#ifndef NPU_PRECISION_GRAPH_PASSES_ANALYSIS_DIFFERENCES_OF_SQUARES_H_
#define NPU_PRECISION_GRAPH_PASSES_ANALYSIS_DIFFERENCES_OF_SQUARES_H_

#include <vector>

#include "graph_passes/graph/graph_view.h"

namespace npu_precision {

struct DifferenceOfSquares {
  int difference;  // the Sub, or the Add of a negated side
  // It, and what computes its inputs from the products under a mean and from the means.
  std::vector<int> nodes;
};

// A mean is a Mean, a Sum, a pooling or a convolution (a window of SSIM). One side must be a mean
// of a product, or of a sum of two, and the other a product of means, or a sum of two. Both may be
// reshaped, and have constant terms and factors. The differences come in the order of their names.
std::vector<DifferenceOfSquares> DifferencesOfSquares(const GraphView& view);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_ANALYSIS_DIFFERENCES_OF_SQUARES_H_
