// The two low types, float16 and bfloat16, and what they make of float32 values.
#ifndef NPU_PRECISION_GRAPH_PASSES_GRAPH_LOW_TYPES_H_
#define NPU_PRECISION_GRAPH_PASSES_GRAPH_LOW_TYPES_H_

#include <cmath>
#include <limits>

#include "tensorflow/core/framework/types.pb.h"

namespace npu_precision {

inline bool IsLowType(tensorflow::DataType dtype) {
  return dtype == tensorflow::DT_HALF || dtype == tensorflow::DT_BFLOAT16;
}

// The nearest value of the low type.
float RoundedTo(tensorflow::DataType low_type, float value);

// The largest finite value.
inline float LargestOf(tensorflow::DataType low_type) {
  return low_type == tensorflow::DT_HALF ? 65504.0f : 3.38953139e38f;
}

// The smallest positive value with full precision. Smaller values are subnormal.
inline float SmallestNormalOf(tensorflow::DataType low_type) {
  return low_type == tensorflow::DT_HALF ? 6.103515625e-5f : std::numeric_limits<float>::min();
}

// The distance between the values of the low type around a number.
inline double SpacingAt(tensorflow::DataType low_type, double value) {
  int exponent = 0;
  std::frexp(value, &exponent);
  return std::ldexp(1.0, exponent - (low_type == tensorflow::DT_HALF ? 11 : 8));
}

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_GRAPH_LOW_TYPES_H_
