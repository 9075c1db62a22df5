// Facts that are in attributes of a node.
#ifndef NPU_PRECISION_GRAPH_PASSES_GRAPH_NODE_ATTRIBUTES_H_
#define NPU_PRECISION_GRAPH_PASSES_GRAPH_NODE_ATTRIBUTES_H_

#include "absl/strings/match.h"
#include "tensorflow/core/framework/attr_value.pb.h"
#include "tensorflow/core/framework/node_def.pb.h"

namespace npu_precision {

// Whether the attribute is true. A missing one is not.
inline bool IsSet(const tensorflow::NodeDef& node, const char* attribute) {
  const auto found = node.attr().find(attribute);
  return found != node.attr().end() && found->second.b();
}

// Whether channels are the last dimension of images, as they are without a data_format. Formats of
// five dimensions have names of their own.
inline bool HasChannelsLast(const tensorflow::NodeDef& node) {
  const auto found = node.attr().find("data_format");
  return found == node.attr().end() || found->second.s().empty() ||
         absl::EndsWith(found->second.s(), "C");
}

// Whether a MatMul or BatchMatMul transposes its first (0) or second (1) operand.
inline bool IsTransposed(const tensorflow::NodeDef& product, int operand) {
  if (product.op() == "MatMul") return IsSet(product, operand == 0 ? "transpose_a" : "transpose_b");
  return IsSet(product, operand == 0 ? "adj_x" : "adj_y");
}

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_GRAPH_NODE_ATTRIBUTES_H_
