#include "graph_passes/graph/float_values.h"

#include "tensorflow/core/framework/tensor_shape.h"

namespace npu_precision {

using tensorflow::TensorShape;

bool FloatValues::Read(const tensorflow::TensorProto& proto) {
  if (proto.dtype() != tensorflow::DT_FLOAT || proto.tensor_shape().unknown_rank()) return false;
  const std::string& content = proto.tensor_content();
  bytes_ = content.data();
  size_ = static_cast<int64_t>(content.size() / sizeof(float));
  const bool in_place = !content.empty() && size_ * sizeof(float) == content.size() &&
                        TensorShape::IsValid(proto.tensor_shape()) &&
                        TensorShape(proto.tensor_shape()).num_elements() == size_;
  if (in_place) return true;
  // TensorFlow parses values that are not raw bytes of the right size.
  if (!copy_.FromProto(proto)) return false;
  bytes_ = copy_.tensor_data().data();
  size_ = copy_.NumElements();
  return true;
}

}  // namespace npu_precision
