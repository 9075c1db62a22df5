// A graph as text that a person can compare with another: one node a line.
//
//   y = MatMul(x, w:1, ^init) T=DT_FLOAT transpose_a=false on /device:CPU:0
#ifndef NPU_PRECISION_GRAPH_PASSES_GRAPH_GRAPH_TEXT_H_
#define NPU_PRECISION_GRAPH_PASSES_GRAPH_GRAPH_TEXT_H_

#include <string>

#include "tensorflow/core/framework/graph.pb.h"

namespace npu_precision {

// The nodes in their order, attributes by name; without the library. Tensors are cut short, and a
// value that was set aside (constant_values.h) is not there.
std::string GraphText(const tensorflow::GraphDef& graph);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_GRAPH_GRAPH_TEXT_H_
