#include "graph_passes/graph/dtype_names.h"

#include "tensorflow/core/framework/types.h"

namespace npu_precision {

std::string DtypeName(tensorflow::DataType dtype) {
  if (dtype == tensorflow::DT_FLOAT) return "float32";
  if (dtype == tensorflow::DT_DOUBLE) return "float64";
  if (dtype == tensorflow::DT_HALF) return "float16";
  return tensorflow::DataTypeString(dtype);
}

}  // namespace npu_precision
