// Dtypes by the names people and npu_bridge use: float32 and float16, not "float" and "half".
#ifndef NPU_PRECISION_GRAPH_PASSES_GRAPH_DTYPE_NAMES_H_
#define NPU_PRECISION_GRAPH_PASSES_GRAPH_DTYPE_NAMES_H_

#include <string>

#include "tensorflow/core/framework/types.pb.h"

namespace npu_precision {

std::string DtypeName(tensorflow::DataType dtype);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_GRAPH_DTYPE_NAMES_H_
