// npu_bridge's parameters that have no effect on stock TensorFlow.
#ifndef NPU_PRECISION_CC_INERT_PARAMETERS_H_
#define NPU_PRECISION_CC_INERT_PARAMETERS_H_

#include <string>
#include <vector>

namespace npu_precision {

const std::vector<std::string>& InertParameters();

}  // namespace npu_precision

#endif  // NPU_PRECISION_CC_INERT_PARAMETERS_H_
