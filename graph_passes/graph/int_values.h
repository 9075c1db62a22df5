// Reads the values of an integer constant.
#ifndef NPU_PRECISION_GRAPH_PASSES_GRAPH_INT_VALUES_H_
#define NPU_PRECISION_GRAPH_PASSES_GRAPH_INT_VALUES_H_

#include <cstdint>
#include <vector>

#include "tensorflow/core/framework/tensor.pb.h"

namespace npu_precision {

// Returns false if the proto is not a tensor of int32 or int64.
bool ReadInts(const tensorflow::TensorProto& proto, std::vector<int64_t>* values);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_GRAPH_INT_VALUES_H_
