// Counts the arithmetic operations of the matrix products and convolutions of a graph.
#ifndef NPU_PRECISION_GRAPH_PASSES_ANALYSIS_PRODUCT_FLOPS_H_
#define NPU_PRECISION_GRAPH_PASSES_ANALYSIS_PRODUCT_FLOPS_H_

#include "graph_passes/graph/graph_view.h"
#include "graph_passes/graph/tensor_shapes.h"

namespace npu_precision {

constexpr double kUnknownCost = -1;

// The number of elements of a tensor; kUnknownCost if it is not known. A first dimension of unknown
// size counts as 1: it is the batch, which multiplies all costs of a model alike.
double ElementsOfSample(const tensorflow::PartialTensorShape& shape);

// The number of additions and multiplications of a node whose op is in IsMatrixOrConvolution, with
// sizes as in ElementsOfSample. kUnknownCost if the shapes are not known.
double ProductFlops(const GraphView& view, const TensorShapes& shapes, int id);

// The number of products that each element of the output of a node whose op is in
// IsMatrixOrConvolution adds up; kUnknownCost if it is not known.
double ProductTerms(const GraphView& view, const TensorShapes& shapes, int id);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_ANALYSIS_PRODUCT_FLOPS_H_
