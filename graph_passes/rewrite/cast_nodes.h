// Adds a Cast to a graph, and writes the name of a tensor as an input.
#ifndef NPU_PRECISION_GRAPH_PASSES_REWRITE_CAST_NODES_H_
#define NPU_PRECISION_GRAPH_PASSES_REWRITE_CAST_NODES_H_

#include <string>

#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/framework/types.pb.h"

namespace npu_precision {

// "name", or "name:1" for another output than the first.
std::string InputName(const std::string& node, int port);

// Adds a Cast of the tensor that is named `input` as an input.
tensorflow::NodeDef* AddCast(const std::string& name, const std::string& input,
                             tensorflow::DataType from, tensorflow::DataType to,
                             const std::string& device, tensorflow::GraphDef* graph);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_REWRITE_CAST_NODES_H_
