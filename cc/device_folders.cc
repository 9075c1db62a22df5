#include "cc/device_folders.h"

#include "cc/tf_compat.h"

namespace npu_precision {

const std::vector<DeviceFolder>& DeviceFolders() {
  static const auto* folders = new std::vector<DeviceFolder>{
      {"cpu", DeviceKind::kCpu, nullptr},
      {"gpu", DeviceKind::kGpu, nullptr},
      {"cpu_onednn_bfloat16", DeviceKind::kCpu, OneDnnComputesInBfloat16},
      {"cpu_bfloat16_mean", DeviceKind::kCpu, MeanOfBfloat16AddsInFloat32},
  };
  return *folders;
}

bool Applies(const DeviceFolder& folder, tensorflow::DataType low_type) {
  if (folder.applies_to_bfloat16 == nullptr) return true;
  return low_type == tensorflow::DT_BFLOAT16 && folder.applies_to_bfloat16();
}

}  // namespace npu_precision
