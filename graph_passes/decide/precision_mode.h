// The precision modes, by npu_bridge's names.
#ifndef NPU_PRECISION_GRAPH_PASSES_DECIDE_PRECISION_MODE_H_
#define NPU_PRECISION_GRAPH_PASSES_DECIDE_PRECISION_MODE_H_

#include <string>
#include <vector>

#include "tensorflow/core/framework/types.pb.h"
#include "tensorflow/core/lib/core/status.h"

namespace npu_precision {

// What a mode does; several names share a rule and differ in the low type.
enum class ModeRule {
  kKeepOrigin,        // nothing changes
  kLowerUnsupported,  // only nodes whose float32 the target does not support
  kForceLow,          // every listed node that supports both types
  kForceFloat32,      // every half-precision node that supports both types
  kMix,               // the white, black and gray lists decide
  kCube,              // matrix and convolution inputs rounded, outputs float32
};

struct PrecisionMode {
  std::string name;
  ModeRule rule;
  tensorflow::DataType low_type;
};

inline bool IsLowType(tensorflow::DataType dtype) {
  return dtype == tensorflow::DT_HALF || dtype == tensorflow::DT_BFLOAT16;
}

// Lowers what the lists or the kernels let it, for speed. The others keep every dtype, emulate what
// another target does, or raise; changing more than dtypes is not theirs.
inline bool LowersForSpeed(ModeRule rule) {
  return rule == ModeRule::kMix || rule == ModeRule::kForceLow;
}

// The mode a run has when neither parameter is given.
PrecisionMode DefaultPrecisionMode();

// `name` is a value of precision_mode; the error lists the values and guesses
// which was meant.
tensorflow::Status ParsePrecisionMode(const std::string& name, PrecisionMode* mode);

// `name` is a value of precision_mode_v2.
tensorflow::Status ParsePrecisionModeV2(const std::string& name, PrecisionMode* mode);

std::vector<std::string> PrecisionModeNames();
std::vector<std::string> PrecisionModeV2Names();

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_DECIDE_PRECISION_MODE_H_
