// Ascend's IR names and the TensorFlow op types that they stand for.
#ifndef NPU_PRECISION_GRAPH_PASSES_LISTS_IR_NAMES_H_
#define NPU_PRECISION_GRAPH_PASSES_LISTS_IR_NAMES_H_

#include <map>
#include <string>
#include <vector>

#include "tensorflow/core/lib/core/status.h"

namespace npu_precision {

using IrNames = std::map<std::string, std::vector<std::string>>;

// Reads {"MatMulV2": ["MatMul"], ...}. An empty list means that no op type of TensorFlow
// corresponds to the Ascend op.
tensorflow::Status ParseIrNames(const std::string& file, const std::string& text, IrNames* names);

// The TensorFlow op types of `name`: its entry in the map, else `name` itself.
std::vector<std::string> TensorFlowOps(const IrNames& names, const std::string& name);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_LISTS_IR_NAMES_H_
