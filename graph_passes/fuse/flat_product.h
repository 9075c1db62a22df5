// Reads a product of tensors with many dimensions as one product of two matrices.
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
  int row_dims = 0;              // the leading dimensions of x, which the result begins with
  std::vector<int64_t> columns;  // the other dimensions of the result
  int64_t depth = 0, width = 0;
  // The depth of x is known from its producers, and not only from this product, which fails if x
  // has another depth.
  bool has_own_depth = false;
  bool is_transposed = false;     // the weights are [width, depth]
  bool has_flat_weights = false;  // they have two dimensions already
};

bool IsBatchMatMul(const std::string& op);  // of any version

// Reads a BatchMatMul or an Einsum of float32. Returns false if it is not such a product, or if a
// needed size is not known.
bool ReadFlatProduct(const GraphView& view, const FusionSite& site, int id, FlatProduct* product);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_FUSE_FLAT_PRODUCT_H_
