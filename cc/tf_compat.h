// Every difference between the TensorFlow versions this project builds for.
#ifndef NPU_PRECISION_CC_TF_COMPAT_H_
#define NPU_PRECISION_CC_TF_COMPAT_H_

#include <string>

#include "tensorflow/core/common_runtime/dma_helper.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/types.pb.h"
#include "tensorflow/core/lib/core/errors.h"
#include "tensorflow/core/lib/core/status.h"
#include "tensorflow/core/platform/cpu_info.h"
#include "tensorflow/core/public/version.h"
#include "tensorflow/core/util/util.h"

#define NPU_PRECISION_TF_AT_LEAST(major, minor) \
  (TF_MAJOR_VERSION > (major) || (TF_MAJOR_VERSION == (major) && TF_MINOR_VERSION >= (minor)))

// CustomGraphOptimizer has a pure virtual Feedback() up to 2.5.
#define NPU_PRECISION_HAS_FEEDBACK !NPU_PRECISION_TF_AT_LEAST(2, 6)

// Grappler leaves out functions that XLA compiles. In 1.15 it optimizes them like others, and has
// no optimizer for common subgraphs.
#define NPU_PRECISION_LEAVES_OUT_COMPILED NPU_PRECISION_TF_AT_LEAST(2, 4)

namespace npu_precision {

// Status::error_message() was renamed in 2.13.
inline std::string StatusText(const tensorflow::Status& status) {
#if NPU_PRECISION_TF_AT_LEAST(2, 13)
  return std::string(status.message());
#else
  return status.error_message();
#endif
}

// Whether nothing else reads the tensor's buffer, so that it may be changed in place. Tensor's own
// function is private in early versions, and does the same.
inline bool IsOnlyReader(const tensorflow::Tensor& tensor) {
#if NPU_PRECISION_TF_AT_LEAST(2, 15)
  return tensor.RefCountIsOne();
#else
  tensorflow::Tensor& same = const_cast<tensorflow::Tensor&>(tensor);
  tensorflow::TensorBuffer* buffer = tensorflow::DMAHelper::buffer(&same);
  return buffer != nullptr && buffer->RefCountIsOne() && buffer->root_buffer()->RefCountIsOne() &&
         buffer->OwnsMemory();
#endif
}

// Whether all that writes a resource variable takes a new buffer if something else holds the old
// one. Earlier versions were not tried.
inline bool WritersLeaveHeldBuffers() { return NPU_PRECISION_TF_AT_LEAST(2, 15); }

// tensorflow::errors lost these in 2.22.
inline bool IsUserError(const tensorflow::Status& status) {
#if NPU_PRECISION_TF_AT_LEAST(2, 22)
  return absl::IsInvalidArgument(status);
#else
  return tensorflow::errors::IsInvalidArgument(status);
#endif
}

inline bool SaysThatItExists(const tensorflow::Status& status) {
#if NPU_PRECISION_TF_AT_LEAST(2, 22)
  return absl::IsAlreadyExists(status);
#else
  return tensorflow::errors::IsAlreadyExists(status);
#endif
}

// Whether the processor has instructions for bfloat16 that this TensorFlow's kernels use. The
// kernels are oneDNN's.
inline bool CpuComputesInBfloat16() {
#if NPU_PRECISION_TF_AT_LEAST(2, 15)
  return tensorflow::port::TestCPUFeature(tensorflow::port::AVX512_BF16) ||
         tensorflow::port::TestCPUFeature(tensorflow::port::AMX_BF16);
#else
  return false;
#endif
}

// Whether TensorFlow fuses ops into those of oneDNN, such as _MklLayerNorm. TensorFlow before 2.15
// is not asked: it has the kernels whether or not it fuses.
inline bool FusesWithOneDnn() {
#if NPU_PRECISION_TF_AT_LEAST(2, 15)
  return tensorflow::IsMKLEnabled();
#else
  return false;
#endif
}

// Whether oneDNN's kernels replace TensorFlow's in bfloat16. They add in float32.
inline bool OneDnnComputesInBfloat16() {
#if NPU_PRECISION_TF_AT_LEAST(2, 15)
  return CpuComputesInBfloat16() && tensorflow::IsMKLEnabled();
#else
  return false;
#endif
}

// Whether oneDNN's kernels of convolutions and pools replace TensorFlow's in this dtype, fast or
// not. For bfloat16 without instructions for it, they need those of 512 bits.
inline bool OneDnnRuns(tensorflow::DataType dtype) {
  if (!FusesWithOneDnn()) return false;
  if (dtype == tensorflow::DT_BFLOAT16) {
    return tensorflow::port::TestCPUFeature(tensorflow::port::AVX512F);
  }
  return dtype == tensorflow::DT_FLOAT;
}

// Whether fused ops, such as _FusedMatMul, run in bfloat16 on this CPU. Their kernels are
// registered, but fail without oneDNN. Older versions are not asked.
inline bool FusedOpsRunInBfloat16() {
#if NPU_PRECISION_TF_AT_LEAST(2, 15)
  return OneDnnRuns(tensorflow::DT_BFLOAT16);
#else
  return true;
#endif
}

// Whether Mean in bfloat16 adds in float32 on a CPU. In 2.15 it adds in bfloat16.
inline bool MeanOfBfloat16AddsInFloat32() { return NPU_PRECISION_TF_AT_LEAST(2, 21); }

// Whether matrix products in bfloat16 run in TensorFlow's own kernels on a CPU. These truncate
// their results, which are 0.3 % too small. oneDNN's round; from 2.9 on, they run by default.
// Versions up to 2.14 are not asked whether they do.
inline bool TruncatesBfloat16Products() {
#if NPU_PRECISION_TF_AT_LEAST(2, 15)
  return !OneDnnRuns(tensorflow::DT_BFLOAT16);
#else
  return !NPU_PRECISION_TF_AT_LEAST(2, 9);
#endif
}

// Whether the processor has instructions for float16 that this TensorFlow's kernels use. They are
// oneDNN's, and no kernel does before 2.21.
inline bool CpuComputesInFloat16() {
#if NPU_PRECISION_TF_AT_LEAST(2, 21)
  return (tensorflow::port::TestCPUFeature(tensorflow::port::AVX512_FP16) ||
          tensorflow::port::TestCPUFeature(tensorflow::port::AMX_FP16)) &&
         tensorflow::IsMKLEnabled();
#else
  return false;
#endif
}

}  // namespace npu_precision

#endif  // NPU_PRECISION_CC_TF_COMPAT_H_
