// Asks TensorFlow which kernels are registered.
#ifndef NPU_PRECISION_CC_REGISTERED_KERNELS_H_
#define NPU_PRECISION_CC_REGISTERED_KERNELS_H_

#include <string>

#include "tensorflow/core/framework/kernel_def.pb.h"
#include "tensorflow/core/framework/node_def.pb.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/types.h"

namespace npu_precision {

// Whether devices of a type have a kernel for the op of `node` with its dtypes.
inline bool HasKernel(const std::string& device_type, const tensorflow::NodeDef& node) {
  const tensorflow::KernelDef* kernel = nullptr;
  return tensorflow::FindKernelDef(tensorflow::DeviceType(device_type), node, &kernel, nullptr)
      .ok();
}

}  // namespace npu_precision

#endif  // NPU_PRECISION_CC_REGISTERED_KERNELS_H_
