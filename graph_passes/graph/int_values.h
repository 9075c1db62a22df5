// The values of an integer constant.
#ifndef NPU_PRECISION_GRAPH_PASSES_GRAPH_INT_VALUES_H_
#define NPU_PRECISION_GRAPH_PASSES_GRAPH_INT_VALUES_H_

#include <cstdint>
#include <vector>

#include "tensorflow/core/framework/tensor.pb.h"

namespace npu_precision {

// False for what is not of int32 or int64, or not a tensor.
bool ReadInts(const tensorflow::TensorProto& proto, std::vector<int64_t>* values);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_GRAPH_INT_VALUES_H_
