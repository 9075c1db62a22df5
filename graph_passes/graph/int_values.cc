#include "graph_passes/graph/int_values.h"

#include "tensorflow/core/framework/tensor.h"

namespace npu_precision {

bool ReadInts(const tensorflow::TensorProto& proto, std::vector<int64_t>* values) {
  tensorflow::Tensor tensor;
  if (!tensor.FromProto(proto)) return false;
  values->clear();
  if (tensor.dtype() == tensorflow::DT_INT32) {
    const auto flat = tensor.flat<tensorflow::int32>();
    values->assign(flat.data(), flat.data() + flat.size());
  } else if (tensor.dtype() == tensorflow::DT_INT64) {
    const auto flat = tensor.flat<tensorflow::int64>();
    values->assign(flat.data(), flat.data() + flat.size());
  } else {
    return false;
  }
  return true;
}

}  // namespace npu_precision
