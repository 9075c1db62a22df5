// Prints a graph as text that a person can compare with another: one line per node.
//
//   y = MatMul(x, w:1, ^init) T=DT_FLOAT transpose_a=false on /device:CPU:0
#ifndef NPU_PRECISION_GRAPH_PASSES_GRAPH_GRAPH_TEXT_H_
#define NPU_PRECISION_GRAPH_PASSES_GRAPH_GRAPH_TEXT_H_

#include <string>

#include "tensorflow/core/framework/graph.pb.h"

namespace npu_precision {

// Returns the nodes in their order, with attributes sorted by name, without the library. Tensors
// are cut short, and values that were set aside (constant_values.h) are missing.
std::string GraphText(const tensorflow::GraphDef& graph);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_GRAPH_GRAPH_TEXT_H_
