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
  int difference;  // the Sub
  // The Sub, and what computes its inputs from the product under a mean and from the two means.
  std::vector<int> nodes;
};

// A mean is a Mean, a Sum, a pooling or a convolution (a window of SSIM), and may be reshaped. One
// side of the Sub must be a mean of a product, the other a product of means. They come in the order
// of the names of the Subs.
std::vector<DifferenceOfSquares> DifferencesOfSquares(const GraphView& view);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_ANALYSIS_DIFFERENCES_OF_SQUARES_H_
