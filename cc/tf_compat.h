// Every difference between the TensorFlow versions this project builds for.
#ifndef NPU_PRECISION_CC_TF_COMPAT_H_
#define NPU_PRECISION_CC_TF_COMPAT_H_

#include <string>

#include "tensorflow/core/lib/core/errors.h"
#include "tensorflow/core/lib/core/status.h"
#include "tensorflow/core/public/version.h"

#define NPU_PRECISION_TF_AT_LEAST(major, minor) \
  (TF_MAJOR_VERSION > (major) || (TF_MAJOR_VERSION == (major) && TF_MINOR_VERSION >= (minor)))

// CustomGraphOptimizer has a pure virtual Feedback() up to 2.4.
#define NPU_PRECISION_HAS_FEEDBACK !NPU_PRECISION_TF_AT_LEAST(2, 5)

namespace npu_precision {

// Status::error_message() was renamed in 2.13.
inline std::string StatusText(const tensorflow::Status& status) {
#if NPU_PRECISION_TF_AT_LEAST(2, 13)
  return std::string(status.message());
#else
  return status.error_message();
#endif
}

}  // namespace npu_precision

#endif  // NPU_PRECISION_CC_TF_COMPAT_H_
