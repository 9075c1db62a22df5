// The values of a float32 constant, read where they lie: weights are large, and a copy of them
// costs as much as what is computed of them.
#ifndef NPU_PRECISION_GRAPH_PASSES_GRAPH_FLOAT_VALUES_H_
#define NPU_PRECISION_GRAPH_PASSES_GRAPH_FLOAT_VALUES_H_

#include <cstdint>
#include <cstring>

#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/tensor.pb.h"

namespace npu_precision {

class FloatValues {
 public:
  // False for what is not of float32, or not a tensor. `proto` must outlive this object.
  bool Read(const tensorflow::TensorProto& proto);

  int64_t size() const { return size_; }
  float operator[](int64_t i) const {
    float value;
    std::memcpy(&value, bytes_ + i * sizeof(value), sizeof(value));  // not aligned in a proto
    return value;
  }

 private:
  const char* bytes_ = nullptr;
  int64_t size_ = 0;
  tensorflow::Tensor copy_;  // of what is written value by value
};

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_GRAPH_FLOAT_VALUES_H_
