// Reads the values of a float32 constant in place: weights are large, and copying them costs as
// much as the computation on them.
#ifndef NPU_PRECISION_GRAPH_PASSES_GRAPH_FLOAT_VALUES_H_
#define NPU_PRECISION_GRAPH_PASSES_GRAPH_FLOAT_VALUES_H_

#include <cstdint>
#include <cstring>

#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/tensor.pb.h"

namespace npu_precision {

class FloatValues {
 public:
  // Returns false if the proto is not a tensor of float32. `proto` must outlive this object.
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
  tensorflow::Tensor copy_;  // for values that are not raw bytes
};

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_GRAPH_FLOAT_VALUES_H_
