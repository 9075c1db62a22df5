// The folders, within one of ops-info files, that are for one kind of device.
#ifndef NPU_PRECISION_CC_DEVICE_FOLDERS_H_
#define NPU_PRECISION_CC_DEVICE_FOLDERS_H_

#include <vector>

#include "graph_passes/lists/op_lists.h"

namespace npu_precision {

struct DeviceFolder {
  const char* name;
  DeviceKind kind;
  // Set where the folder counts in the modes alone that lower to bfloat16, and only if this is so.
  bool (*applies_to_bfloat16)();
};

// In their order: a later one replaces what an earlier one says of an op.
const std::vector<DeviceFolder>& DeviceFolders();

// Whether a folder counts in modes that lower to `low_type`.
bool Applies(const DeviceFolder& folder, tensorflow::DataType low_type);

}  // namespace npu_precision

#endif  // NPU_PRECISION_CC_DEVICE_FOLDERS_H_
