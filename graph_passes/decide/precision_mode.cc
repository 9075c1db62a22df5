#include "graph_passes/decide/precision_mode.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph_passes/graph/quoted.h"
#include "graph_passes/lists/did_you_mean.h"
#include "tensorflow/core/lib/core/errors.h"

namespace npu_precision {
namespace {

using tensorflow::DT_BFLOAT16;
using tensorflow::DT_HALF;
using tensorflow::Status;

const std::vector<PrecisionMode>& Modes() {
  static const auto* modes = new std::vector<PrecisionMode>{
      {"force_fp32", ModeRule::kForceFloat32, DT_HALF},
      {"allow_fp32_to_fp16", ModeRule::kLowerUnsupported, DT_HALF},
      {"force_fp16", ModeRule::kForceLow, DT_HALF},
      {"must_keep_origin_dtype", ModeRule::kKeepOrigin, DT_HALF},
      {"allow_mix_precision", ModeRule::kMix, DT_HALF},
      {"cube_fp16in_fp32out", ModeRule::kCube, DT_HALF},
      {"allow_mix_precision_fp16", ModeRule::kMix, DT_HALF},
      {"allow_mix_precision_bf16", ModeRule::kMix, DT_BFLOAT16},
      {"allow_fp32_to_bf16", ModeRule::kLowerUnsupported, DT_BFLOAT16},
  };
  return *modes;
}

struct ModeV2 {
  const char* name;
  const char* same_as;  // nullptr: npu_bridge has the mode, but it is not available here
};

constexpr ModeV2 kModesV2[] = {
    {"fp16", "force_fp16"},
    {"origin", "must_keep_origin_dtype"},
    {"cube_fp16in_fp32out", "cube_fp16in_fp32out"},
    {"mixed_float16", "allow_mix_precision_fp16"},
    {"mixed_bfloat16", "allow_mix_precision_bf16"},
    {"cube_hif8", nullptr},
    {"mixed_hif8", nullptr},
};

const PrecisionMode* Find(const std::string& name) {
  for (const PrecisionMode& mode : Modes()) {
    if (mode.name == name) return &mode;
  }
  return nullptr;
}

// By letters alone, "bf16" would be nearest to "fp16".
std::string NearMode(const std::string& name, const std::vector<std::string>& allowed) {
  if (!absl::StrContains(name, "bf")) return DidYouMean(name, allowed);
  std::vector<std::string> near;
  for (const std::string& mode : allowed) {
    if (absl::StrContains(mode, "bf")) near.push_back(mode);
  }
  const std::string meant = DidYouMean(name, near);
  if (!meant.empty()) return meant;
  for (const std::string& mode : near) {
    if (absl::StrContains(mode, "mix")) return DidYouMean(mode, near);
  }
  return "";
}

Status UnknownMode(const char* parameter, const std::string& name,
                   const std::vector<std::string>& allowed, const char* other_parameter,
                   const std::vector<std::string>& allowed_there) {
  const bool is_there =
      std::find(allowed_there.begin(), allowed_there.end(), name) != allowed_there.end();
  return tensorflow::errors::InvalidArgument(
      parameter, ": got ", Quoted(name), ", expected one of ", absl::StrJoin(allowed, ", "),
      is_there ? absl::StrCat("; it is a value of ", other_parameter) : NearMode(name, allowed));
}

}  // namespace

PrecisionMode DefaultPrecisionMode() { return *Find("allow_fp32_to_fp16"); }

std::map<std::string, tensorflow::DataType> MixedModes() {
  std::map<std::string, tensorflow::DataType> mixed;
  for (const PrecisionMode& mode : Modes()) {
    if (mode.rule == ModeRule::kMix) mixed[mode.name] = mode.low_type;
  }
  for (const ModeV2& newer : kModesV2) {
    const auto found = newer.same_as == nullptr ? mixed.end() : mixed.find(newer.same_as);
    if (found != mixed.end()) mixed[newer.name] = found->second;
  }
  return mixed;
}

PrecisionMode MixedMode(tensorflow::DataType low_type) {
  const bool is_bfloat16 = low_type == DT_BFLOAT16;
  return *Find(is_bfloat16 ? "allow_mix_precision_bf16" : "allow_mix_precision");
}

Status ParsePrecisionMode(const std::string& name, PrecisionMode* mode) {
  const PrecisionMode* found = Find(name);
  if (found == nullptr) {
    return UnknownMode("precision_mode", name, PrecisionModeNames(), "precision_mode_v2",
                       PrecisionModeV2Names());
  }
  *mode = *found;
  return Status();
}

Status ParsePrecisionModeV2(const std::string& name, PrecisionMode* mode) {
  for (const ModeV2& candidate : kModesV2) {
    if (candidate.name != name) continue;
    if (candidate.same_as == nullptr) {
      return tensorflow::errors::InvalidArgument(
          "precision_mode_v2: ", Quoted(name),
          " is not available on this target: no kernel of TensorFlow computes in hifloat8. "
          "Use one of ",
          absl::StrJoin(PrecisionModeV2Names(), ", "));
    }
    *mode = *Find(candidate.same_as);
    mode->name = name;
    return Status();
  }
  return UnknownMode("precision_mode_v2", name, PrecisionModeV2Names(), "precision_mode",
                     PrecisionModeNames());
}

Status CheckModeOfEitherName(const std::string& name) {
  std::vector<std::string> names = PrecisionModeNames();
  for (const std::string& newer : PrecisionModeV2Names()) {
    if (std::find(names.begin(), names.end(), newer) == names.end()) names.push_back(newer);
  }
  if (std::find(names.begin(), names.end(), name) != names.end()) return Status();
  return tensorflow::errors::InvalidArgument("got ", Quoted(name), ", expected one of ",
                                             absl::StrJoin(names, ", "), NearMode(name, names));
}

std::vector<std::string> PrecisionModeNames() {
  std::vector<std::string> names;
  for (const PrecisionMode& mode : Modes()) names.push_back(mode.name);
  return names;
}

std::vector<std::string> PrecisionModeV2Names() {
  std::vector<std::string> names;
  for (const ModeV2& mode : kModesV2) {
    if (mode.same_as != nullptr) names.push_back(mode.name);
  }
  return names;
}

std::vector<std::string> PrecisionModesForSpeed() {
  std::vector<std::string> names;
  for (const PrecisionMode& mode : Modes()) {
    if (LowersForSpeed(mode.rule)) names.push_back(mode.name);
  }
  for (const ModeV2& mode : kModesV2) {
    const PrecisionMode* same = mode.same_as == nullptr ? nullptr : Find(mode.same_as);
    if (same != nullptr && LowersForSpeed(same->rule)) names.push_back(mode.name);
  }
  return names;
}

}  // namespace npu_precision
