#include "cc/kernel_support.h"

#include "tensorflow/core/framework/kernel_def.pb.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/util/device_name_utils.h"

namespace npu_precision {
namespace {

bool Registered(const std::string& device_type, const tensorflow::NodeDef& node) {
  const tensorflow::KernelDef* kernel = nullptr;
  return tensorflow::FindKernelDef(tensorflow::DeviceType(device_type), node, &kernel, nullptr)
      .ok();
}

}  // namespace

std::string KernelSupport::DeviceTypeOf(const tensorflow::NodeDef& node) const {
  tensorflow::DeviceNameUtils::ParsedName name;
  if (tensorflow::DeviceNameUtils::ParseFullName(node.device(), &name) && name.has_type) {
    return name.type;
  }
  if (has_gpu_ && Registered(tensorflow::DEVICE_GPU, node)) return tensorflow::DEVICE_GPU;
  return tensorflow::DEVICE_CPU;
}

bool KernelSupport::HasKernel(const tensorflow::NodeDef& node) const {
  return Registered(DeviceTypeOf(node), node);
}

DeviceKind KernelSupport::KindOf(const tensorflow::NodeDef& node) const {
  const std::string type = DeviceTypeOf(node);
  if (type == tensorflow::DEVICE_CPU) return DeviceKind::kCpu;
  if (type == tensorflow::DEVICE_GPU) return DeviceKind::kGpu;
  return DeviceKind::kOther;
}

}  // namespace npu_precision
