#include "cc/xla_support.h"

#include "absl/strings/str_cat.h"
#include "cc/registered_kernels.h"
#include "tensorflow/core/util/device_name_utils.h"

namespace npu_precision {

bool XlaSupport::CanRun(const tensorflow::NodeDef& node, const tensorflow::NodeDef& changed) const {
  const std::string device =
      KindOf(node) == DeviceKind::kGpu ? tensorflow::DEVICE_GPU : tensorflow::DEVICE_CPU;
  const std::string xla = absl::StrCat("XLA_", device, "_JIT");
  return HasKernel(device, changed) && (HasKernel(xla, changed) || !HasKernel(xla, node));
}

DeviceKind XlaSupport::KindOf(const tensorflow::NodeDef& node) const {
  tensorflow::DeviceNameUtils::ParsedName name;
  if (tensorflow::DeviceNameUtils::ParseFullName(node.device(), &name) && name.has_type) {
    return name.type == tensorflow::DEVICE_GPU ? DeviceKind::kGpu : DeviceKind::kCpu;
  }
  return has_gpu_ ? DeviceKind::kGpu : DeviceKind::kCpu;
}

}  // namespace npu_precision
