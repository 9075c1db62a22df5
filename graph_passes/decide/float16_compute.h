// The option float16_compute: the dtype in which lowered nodes compute.
#ifndef NPU_PRECISION_GRAPH_PASSES_DECIDE_FLOAT16_COMPUTE_H_
#define NPU_PRECISION_GRAPH_PASSES_DECIDE_FLOAT16_COMPUTE_H_

#include <string>
#include <vector>

#include "tensorflow/core/lib/core/status.h"

namespace npu_precision {

enum class Float16Compute {
  kAuto,     // in float32 where the device only emulates float16, or truncates bfloat16
  kNative,   // in the low type
  kFloat32,  // float16 in float32, on values rounded to float16; bfloat16 as kAuto
};

std::vector<std::string> Float16ComputeNames();

// Finds the value by its name. The error lists the names and suggests one.
tensorflow::Status ParseFloat16Compute(const std::string& name, Float16Compute* compute);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_DECIDE_FLOAT16_COMPUTE_H_
