// The ops that run functions, and the attribute of functions that XLA compiles.
#ifndef NPU_PRECISION_GRAPH_PASSES_GRAPH_FUNCTION_OPS_H_
#define NPU_PRECISION_GRAPH_PASSES_GRAPH_FUNCTION_OPS_H_

#include <string>
#include <vector>

#include "tensorflow/core/framework/attr_value.pb.h"
#include "tensorflow/core/framework/node_def.pb.h"

namespace npu_precision {

// True on a function, and on a call of it. In TensorFlow 1.15 functions have another attribute, and
// Grappler optimizes them.
constexpr char kMustCompile[] = "_XlaMustCompile";

inline bool IsCall(const std::string& op) {
  return op == "PartitionedCall" || op == "StatefulPartitionedCall";
}

inline bool IsChoice(const std::string& op) {
  return op == "If" || op == "StatelessIf" || op == "Case" || op == "StatelessCase";
}

inline bool IsLoop(const std::string& op) { return op == "While" || op == "StatelessWhile"; }

// The functions that the node names in its attributes. Those that begin with an underscore call
// nothing.
inline std::vector<std::string> NamedFunctions(const tensorflow::NodeDef& node) {
  std::vector<std::string> names;
  for (const auto& attr : node.attr()) {
    if (attr.first[0] == '_') continue;
    if (attr.second.has_func()) names.push_back(attr.second.func().name());
    for (const auto& function : attr.second.list().func()) names.push_back(function.name());
  }
  return names;
}

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_GRAPH_FUNCTION_OPS_H_
