// The shapes of tensors, as far as the caller of the passes knows them.
#ifndef NPU_PRECISION_GRAPH_PASSES_GRAPH_TENSOR_SHAPES_H_
#define NPU_PRECISION_GRAPH_PASSES_GRAPH_TENSOR_SHAPES_H_

#include <functional>
#include <string>

// Declared, not included: the header takes a second to compile, and few of the sixty sources that
// include this file ask for a shape.
namespace tensorflow {
class PartialTensorShape;
}

namespace npu_precision {

// The shape of an output of the node with that name, in the given graph. The first call may be
// slow. Empty if no shape is known.
using TensorShapes =
    std::function<tensorflow::PartialTensorShape(const std::string& node, int port)>;

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_GRAPH_TENSOR_SHAPES_H_
