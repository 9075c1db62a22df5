// The shapes of a node's tensors.
#ifndef NPU_PRECISION_GRAPH_PASSES_DECIDE_NODE_SHAPES_H_
#define NPU_PRECISION_GRAPH_PASSES_DECIDE_NODE_SHAPES_H_

#include <vector>

#include "tensorflow/core/framework/tensor_shape.h"

namespace npu_precision {

struct NodeShapes {
  std::vector<tensorflow::PartialTensorShape> inputs;
  tensorflow::PartialTensorShape output;  // the first
};

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_DECIDE_NODE_SHAPES_H_
