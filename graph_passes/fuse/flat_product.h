// How a product of tensors of many dimensions is one product of two matrices.
#ifndef NPU_PRECISION_GRAPH_PASSES_FUSE_FLAT_PRODUCT_H_
#define NPU_PRECISION_GRAPH_PASSES_FUSE_FLAT_PRODUCT_H_

#include <cstdint>
#include <vector>

#include "graph_passes/fuse/fusion_site.h"
#include "graph_passes/graph/graph_view.h"
#include "tensorflow/core/framework/tensor_shape.h"

namespace npu_precision {

// The product of x as [rows, depth] with the weights as [depth, width].
struct FlatProduct {
  OutputPort x, weights;
  tensorflow::PartialTensorShape x_shape;
  int row_dims = 0;              // the first dimensions of x, which the result begins with
  std::vector<int64_t> columns;  // the other dimensions of the result
  int64_t depth = 0, width = 0;
  // The depth of x follows from what x is made of, and not only from this product, which fails
  // where x has another one.
  bool has_own_depth = false;
  bool is_transposed = false;     // the weights are [width, depth]
  bool has_flat_weights = false;  // they have two dimensions already
};

bool IsBatchMatMul(const std::string& op);  // of any version

// Reads what a BatchMatMul or an Einsum computes, of float32. False where it is no such product,
// or where a size is not known that the product would have to know.
bool ReadFlatProduct(const GraphView& view, const FusionSite& site, int id, FlatProduct* product);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_FUSE_FLAT_PRODUCT_H_
