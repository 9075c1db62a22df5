#include "cc/kernel_support.h"

#include "absl/strings/match.h"
#include "cc/kernel_faults.h"
#include "cc/registered_kernels.h"
#include "cc/tf_compat.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/util/device_name_utils.h"

namespace npu_precision {
namespace {

bool IsMatrixProduct(const std::string& op) {
  return op == "MatMul" || op == "Einsum" || absl::StartsWith(op, "BatchMatMul");
}

}  // namespace

std::string KernelSupport::DeviceTypeOf(const tensorflow::NodeDef& node) const {
  const auto known = type_of_device_.find(node.device());
  if (known != type_of_device_.end()) return known->second;
  tensorflow::DeviceNameUtils::ParsedName name;
  if (tensorflow::DeviceNameUtils::ParseFullName(node.device(), &name) && name.has_type) {
    type_of_device_[node.device()] = name.type;
    return name.type;
  }
  if (has_gpu_ && HasKernel(tensorflow::DEVICE_GPU, node)) return tensorflow::DEVICE_GPU;
  return tensorflow::DEVICE_CPU;
}

bool KernelSupport::CanRun(const tensorflow::NodeDef& node,
                           const tensorflow::NodeDef& changed) const {
  if (emulates_) return true;
  if (absl::StartsWith(changed.op(), "_Mkl") && !FusesWithOneDnn()) return false;
  const std::string type = DeviceTypeOf(node);
  if (!HasKernel(type, changed)) return false;
  if (type != tensorflow::DEVICE_CPU) return true;
  // Another machine may have what this one lacks.
  const bool fails_here = runs_here_ && IsFusedByTensorFlow(changed) &&
                          ComputesIn(changed, tensorflow::DT_BFLOAT16) && !FusedOpsRunInBfloat16();
  return !fails_here && !FailsOnCpu(changed);
}

bool KernelSupport::DependsOnShapes(const tensorflow::NodeDef& node) const {
  return !emulates_ && MayFailOnCpu(node) && DeviceTypeOf(node) == tensorflow::DEVICE_CPU;
}

bool KernelSupport::CanRunWith(const tensorflow::NodeDef& changed, const NodeShapes& shapes) const {
  return !FailsOnCpu(changed, shapes);
}

bool KernelSupport::HasFastFloat16(const tensorflow::NodeDef& node) const {
  return !runs_here_ || DeviceTypeOf(node) != tensorflow::DEVICE_CPU || CpuComputesInFloat16();
}

bool KernelSupport::TruncatesBfloat16(const tensorflow::NodeDef& node) const {
  return runs_here_ && TruncatesBfloat16Products() && IsMatrixProduct(node.op()) &&
         ComputesIn(node, tensorflow::DT_BFLOAT16) && DeviceTypeOf(node) == tensorflow::DEVICE_CPU;
}

bool KernelSupport::HasOneDnn(const tensorflow::NodeDef& node, tensorflow::DataType dtype) const {
  return DeviceTypeOf(node) == tensorflow::DEVICE_CPU &&
         (runs_here_ ? OneDnnRuns(dtype) : for_onednn_);
}

bool KernelSupport::HasOwnOps(const tensorflow::NodeDef& node) const {
  return has_own_ops_ && DeviceTypeOf(node) == tensorflow::DEVICE_CPU;
}

bool KernelSupport::KeepsCasts(const tensorflow::NodeDef& node) const {
  return HasOwnOps(node) && WritersLeaveHeldBuffers();
}

DeviceKind KernelSupport::KindOf(const tensorflow::NodeDef& node) const {
  const std::string type = DeviceTypeOf(node);
  if (type == tensorflow::DEVICE_CPU) return DeviceKind::kCpu;
  if (type == tensorflow::DEVICE_GPU) return DeviceKind::kGpu;
  return DeviceKind::kOther;
}

}  // namespace npu_precision
