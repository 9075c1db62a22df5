// The ops that run functions, and the attribute of functions that XLA compiles.
#ifndef NPU_PRECISION_GRAPH_PASSES_GRAPH_FUNCTION_OPS_H_
#define NPU_PRECISION_GRAPH_PASSES_GRAPH_FUNCTION_OPS_H_

#include <string>

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

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_GRAPH_FUNCTION_OPS_H_
