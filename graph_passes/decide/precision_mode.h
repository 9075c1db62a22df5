// The precision modes, by their names in npu_bridge.
#ifndef NPU_PRECISION_GRAPH_PASSES_DECIDE_PRECISION_MODE_H_
#define NPU_PRECISION_GRAPH_PASSES_DECIDE_PRECISION_MODE_H_

#include <map>
#include <string>
#include <vector>

#include "tensorflow/core/framework/types.pb.h"
#include "tensorflow/core/lib/core/status.h"

namespace npu_precision {

// The rule of a mode. Several names share a rule and differ in the low type.
enum class ModeRule {
  kKeepOrigin,        // nothing changes
  kLowerUnsupported,  // lowers only nodes whose float32 the target does not support
  kForceLow,          // lowers every listed node that supports both types
  kForceFloat32,      // raises every half-precision node that supports both types
  kMix,               // the white, black and gray lists decide
  kCube,              // matrix and convolution inputs rounded, outputs float32
};

struct PrecisionMode {
  std::string name;
  ModeRule rule;
  tensorflow::DataType low_type;
};

// Whether the mode gives nodes the low type.
inline bool Lowers(ModeRule rule) {
  return rule == ModeRule::kMix || rule == ModeRule::kForceLow ||
         rule == ModeRule::kLowerUnsupported;
}

// Whether the mode lowers as much as the lists or the kernels allow, for speed. The other modes
// keep every dtype, lower what another target lacks, or raise nodes. They change nothing but
// dtypes.
inline bool LowersForSpeed(ModeRule rule) {
  return rule == ModeRule::kMix || rule == ModeRule::kForceLow;
}

// The mode of a run that sets neither parameter.
PrecisionMode DefaultPrecisionMode();

// The mixed modes by their older and newer names, each with the dtype that it lowers to.
std::map<std::string, tensorflow::DataType> MixedModes();

// The mixed mode that lowers to the dtype.
PrecisionMode MixedMode(tensorflow::DataType low_type);

// Finds the mode by its name in precision_mode. The error lists the names and suggests one.
tensorflow::Status ParsePrecisionMode(const std::string& name, PrecisionMode* mode);

// Finds the mode by its name in precision_mode_v2.
tensorflow::Status ParsePrecisionModeV2(const std::string& name, PrecisionMode* mode);

// An error if the name is neither of the older nor of the newer modes.
tensorflow::Status CheckModeOfEitherName(const std::string& name);

std::vector<std::string> PrecisionModeNames();
std::vector<std::string> PrecisionModeV2Names();
// The modes whose rule lowers for speed, by both their names.
std::vector<std::string> PrecisionModesForSpeed();

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_DECIDE_PRECISION_MODE_H_
