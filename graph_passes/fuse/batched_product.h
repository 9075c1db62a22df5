// Reads an Einsum as a product of two batches of matrices.
#ifndef NPU_PRECISION_GRAPH_PASSES_FUSE_BATCHED_PRODUCT_H_
#define NPU_PRECISION_GRAPH_PASSES_FUSE_BATCHED_PRODUCT_H_

#include <string>
#include <vector>

#include "tensorflow/core/framework/node_def.pb.h"

namespace npu_precision {

// result = BatchMatMul(operand `first`, the other operand). Each operand may be transposed first.
struct BatchedProduct {
  struct Operand {
    int input = 0;          // index of the Einsum's input
    std::vector<int> perm;  // of the Transpose before; empty if none is needed
    bool adjoint = false;   // its last two dimensions change places in the product
  };
  Operand first, second;
  std::vector<int> result_perm;  // of the Transpose behind; empty if none is needed
  std::string labels[2];         // of the Einsum's operands
};

// Returns false if the Einsum is not such a product.
bool ReadBatchedProduct(const tensorflow::NodeDef& einsum, BatchedProduct* product);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_FUSE_BATCHED_PRODUCT_H_
