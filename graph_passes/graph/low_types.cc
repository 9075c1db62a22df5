#include "graph_passes/graph/low_types.h"

#include "tensorflow/core/framework/bfloat16.h"
#include "tensorflow/core/framework/numeric_types.h"

namespace npu_precision {

float RoundedTo(tensorflow::DataType low_type, float value) {
  if (low_type == tensorflow::DT_HALF) return static_cast<float>(Eigen::half(value));
  return static_cast<float>(tensorflow::bfloat16(value));
}

}  // namespace npu_precision
