// How many operations the products of matrices and the convolutions of a graph compute.
#ifndef NPU_PRECISION_GRAPH_PASSES_ANALYSIS_PRODUCT_FLOPS_H_
#define NPU_PRECISION_GRAPH_PASSES_ANALYSIS_PRODUCT_FLOPS_H_

#include "graph_passes/graph/graph_view.h"
#include "graph_passes/graph/tensor_shapes.h"

namespace npu_precision {

constexpr double kUnknownCost = -1;

// The elements of a tensor, with 1 for a first dimension of unknown size: that of a batch, which
// multiplies all costs of a model alike. kUnknownCost where more is not known.
double ElementsOfSample(const tensorflow::PartialTensorShape& shape);

// The additions and multiplications of a node of an op of IsMatrixOrConvolution, by
// ElementsOfSample. kUnknownCost where the shapes do not tell.
double ProductFlops(const GraphView& view, const TensorShapes& shapes, int id);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_ANALYSIS_PRODUCT_FLOPS_H_
