#include "cc/kernel_support.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "cc/tf_compat.h"
#include "tensorflow/core/framework/attr_value.pb.h"
#include "tensorflow/core/framework/kernel_def.pb.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/util/device_name_utils.h"

namespace npu_precision {
namespace {

const tensorflow::AttrValue& AttrOf(const tensorflow::NodeDef& node, const char* name) {
  static const auto* none = new tensorflow::AttrValue();
  const auto found = node.attr().find(name);
  return found == node.attr().end() ? *none : found->second;
}

bool Registered(const std::string& device_type, const tensorflow::NodeDef& node) {
  const tensorflow::KernelDef* kernel = nullptr;
  return tensorflow::FindKernelDef(tensorflow::DeviceType(device_type), node, &kernel, nullptr)
      .ok();
}

bool IsFused(const tensorflow::NodeDef& node) {
  return absl::StartsWith(node.op(), "_Fused") || absl::StartsWith(node.op(), "_Mkl");
}

bool IsMatrixProduct(const std::string& op) {
  return op == "MatMul" || op == "Einsum" || absl::StartsWith(op, "BatchMatMul");
}

bool ComputesIn(const tensorflow::NodeDef& node, tensorflow::DataType dtype) {
  return AttrOf(node, "T").type() == dtype;
}

// Whether it is a max pool, or the gradient of one, whose window has 256 places or more. In
// bfloat16, oneDNN's gradient of such a pool goes to wrong places; with 255 it is right.
bool HasLargeWindow(const tensorflow::NodeDef& node) {
  if (!absl::StartsWith(node.op(), "MaxPool")) return false;
  int64_t places = 1;
  for (const int64_t size : AttrOf(node, "ksize").list().i()) places *= size;
  return places > 255;
}

// Whether the CPU has a registered kernel that fails, or gives wrong values, when it runs. For
// channels first, and for the gradients of dilated convolutions, float32 has oneDNN's kernels
// instead, but float16 has none. Newer TensorFlows also register fused ops in float16, which run
// only on a processor with avx512_fp16. There, TensorFlow 2.21 computes an Einsum like
// "...x,...xy->...y" wrongly.
bool FailsOnCpu(const tensorflow::NodeDef& node) {
  if (ComputesIn(node, tensorflow::DT_BFLOAT16)) return HasLargeWindow(node);
  if (!ComputesIn(node, tensorflow::DT_HALF)) return false;
  if (IsFused(node)) return true;
  if (absl::StrContains(AttrOf(node, "equation").s(), "...")) return true;
  if (absl::StartsWith(AttrOf(node, "data_format").s(), "NC")) return true;
  if (!absl::StrContains(node.op(), "Backprop")) return false;
  const auto& dilations = AttrOf(node, "dilations").list().i();
  return std::any_of(dilations.begin(), dilations.end(),
                     [](int64_t dilation) { return dilation > 1; });
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
  if (has_gpu_ && Registered(tensorflow::DEVICE_GPU, node)) return tensorflow::DEVICE_GPU;
  return tensorflow::DEVICE_CPU;
}

bool KernelSupport::CanRun(const tensorflow::NodeDef& node,
                           const tensorflow::NodeDef& changed) const {
  if (emulates_) return true;
  if (absl::StartsWith(changed.op(), "_Mkl") && !FusesWithOneDnn()) return false;
  const std::string type = DeviceTypeOf(node);
  if (!Registered(type, changed)) return false;
  if (type != tensorflow::DEVICE_CPU) return true;
  // Another machine may have what this one lacks.
  const bool fails_here = runs_here_ && IsFused(changed) &&
                          ComputesIn(changed, tensorflow::DT_BFLOAT16) && !FusedOpsRunInBfloat16();
  return !fails_here && !FailsOnCpu(changed);
}

// The oneDNN of TensorFlow 2.19 and 2.21, with wide images. Filters up to 14 wide are right.
bool KernelSupport::MayRunForever(const tensorflow::NodeDef& node,
                                  const tensorflow::NodeDef& changed,
                                  const tensorflow::PartialTensorShape& filter) const {
  return !emulates_ && ComputesIn(changed, tensorflow::DT_BFLOAT16) && filter.dims() == 4 &&
         filter.dim_size(1) > 14 && DeviceTypeOf(node) == tensorflow::DEVICE_CPU;
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

DeviceKind KernelSupport::KindOf(const tensorflow::NodeDef& node) const {
  const std::string type = DeviceTypeOf(node);
  if (type == tensorflow::DEVICE_CPU) return DeviceKind::kCpu;
  if (type == tensorflow::DEVICE_GPU) return DeviceKind::kGpu;
  return DeviceKind::kOther;
}

}  // namespace npu_precision
