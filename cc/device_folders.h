// The subfolders of an ops-info folder that apply to one kind of device.
#ifndef NPU_PRECISION_CC_DEVICE_FOLDERS_H_
#define NPU_PRECISION_CC_DEVICE_FOLDERS_H_

#include <vector>

#include "graph_passes/lists/op_lists.h"

namespace npu_precision {

struct DeviceFolder {
  const char* name;
  DeviceKind kind;
  // Set if the folder counts only in modes that lower to bfloat16, and only if this returns true.
  bool (*applies_to_bfloat16)();
};

// In their order: a later folder replaces an op's entry from an earlier one.
const std::vector<DeviceFolder>& DeviceFolders();

// Whether a folder counts in modes that lower to `low_type`.
bool Applies(const DeviceFolder& folder, tensorflow::DataType low_type);

}  // namespace npu_precision

#endif  // NPU_PRECISION_CC_DEVICE_FOLDERS_H_
