#include "graph_passes/same_padding.h"

#include <string>
#include <unordered_map>

#include "tensorflow/core/framework/attr_value.pb.h"
#include "tensorflow/core/framework/tensor.pb.h"
#include "tensorflow/core/framework/tensor_shape.pb.h"
#include "tensorflow/core/framework/types.pb.h"

namespace npu_precision {
namespace {

using tensorflow::AttrValue;
using tensorflow::GraphDef;
using tensorflow::NodeDef;

const AttrValue* Find(const NodeDef& node, const char* name) {
  const auto found = node.attr().find(name);
  return found == node.attr().end() ? nullptr : &found->second;
}

bool IsLowValidConvolution(const NodeDef& node) {
  if (node.op() != "Conv2D" && node.op() != "DepthwiseConv2dNative") return false;
  const AttrValue* type = Find(node, "T");
  const AttrValue* padding = Find(node, "padding");
  return type != nullptr && padding != nullptr && padding->s() == "VALID" &&
         (type->type() == tensorflow::DT_HALF || type->type() == tensorflow::DT_BFLOAT16);
}

// The constant that a tensor is, or of which it is a copy or a Cast; nullptr for any other.
const NodeDef* ConstantBehind(const std::unordered_map<std::string, const NodeDef*>& nodes,
                              std::string tensor) {
  // The bound ends the walk on a damaged graph whose nodes form a cycle.
  for (size_t step = 0; step <= nodes.size(); ++step) {
    const auto found = nodes.find(tensor.substr(0, tensor.find(':')));
    if (found == nodes.end()) return nullptr;
    const NodeDef& node = *found->second;
    if (node.op() == "Const") return &node;
    if ((node.op() != "Identity" && node.op() != "Cast") || node.input_size() == 0) return nullptr;
    tensor = node.input(0);
  }
  return nullptr;
}

bool IsOneByOne(const AttrValue* value) {
  if (value == nullptr) return false;
  const tensorflow::TensorShapeProto& shape = value->tensor().tensor_shape();
  return shape.dim_size() == 4 && shape.dim(0).size() == 1 && shape.dim(1).size() == 1;
}

}  // namespace

void WriteSamePadding(const ConstantValues& values, GraphDef* graph,
                      std::vector<LedgerRewrite>* rewrites) {
  std::vector<NodeDef*> convolutions;
  for (NodeDef& node : *graph->mutable_node()) {
    if (IsLowValidConvolution(node) && node.input_size() >= 2) convolutions.push_back(&node);
  }
  if (convolutions.empty()) return;
  std::unordered_map<std::string, const NodeDef*> nodes;
  for (const NodeDef& node : graph->node()) nodes.emplace(node.name(), &node);
  for (NodeDef* convolution : convolutions) {
    const NodeDef* kernel = ConstantBehind(nodes, convolution->input(1));
    if (kernel == nullptr || !IsOneByOne(values.Find(*kernel))) continue;
    (*convolution->mutable_attr())["padding"].set_s("SAME");
    rewrites->push_back({"same_padding", convolution->name(), "VALID", "SAME"});
  }
}

}  // namespace npu_precision
