// Parses the equation of an Einsum of two operands: "abc,cd->abd".
#ifndef NPU_PRECISION_GRAPH_PASSES_FUSE_EINSUM_EQUATION_H_
#define NPU_PRECISION_GRAPH_PASSES_FUSE_EINSUM_EQUATION_H_

#include <string>

#include "absl/strings/string_view.h"
#include "tensorflow/core/framework/node_def.pb.h"

namespace npu_precision {

struct EinsumEquation {
  std::string operands[2];
  std::string result;
};

// Returns false if the node has no equation, or not exactly two operands.
bool ReadEinsumEquation(const tensorflow::NodeDef& einsum, EinsumEquation* equation);

// Whether no label occurs twice.
bool AllDiffer(std::string labels);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_FUSE_EINSUM_EQUATION_H_
