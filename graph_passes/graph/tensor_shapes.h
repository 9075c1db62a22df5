// The shapes of tensors, as far as the caller of the passes knows them.
#ifndef NPU_PRECISION_GRAPH_PASSES_GRAPH_TENSOR_SHAPES_H_
#define NPU_PRECISION_GRAPH_PASSES_GRAPH_TENSOR_SHAPES_H_

#include <functional>
#include <string>

// Declared, not included: its header takes a second to compile, and few of the sixty sources that
// read this file ask for a shape.
namespace tensorflow {
class PartialTensorShape;
}

namespace npu_precision {

// Of an output of the node with that name, as the graph was given. It may be slow when it is called
// first. Empty where nothing is known of any shape.
using TensorShapes =
    std::function<tensorflow::PartialTensorShape(const std::string& node, int port)>;

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_GRAPH_TENSOR_SHAPES_H_
