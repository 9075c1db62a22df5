#include "graph_passes/rewrite/cast_nodes.h"

#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/attr_value.pb.h"

namespace npu_precision {

std::string InputName(const std::string& node, int port) {
  return port == 0 ? node : absl::StrCat(node, ":", port);
}

tensorflow::NodeDef* AddCast(const std::string& name, const std::string& input,
                             tensorflow::DataType from, tensorflow::DataType to,
                             const std::string& device, tensorflow::GraphDef* graph) {
  tensorflow::NodeDef* cast = graph->add_node();
  cast->set_name(name);
  cast->set_op("Cast");
  cast->add_input(input);
  cast->set_device(device);
  (*cast->mutable_attr())["SrcT"].set_type(from);
  (*cast->mutable_attr())["DstT"].set_type(to);
  (*cast->mutable_attr())["Truncate"].set_b(false);
  return cast;
}

}  // namespace npu_precision
