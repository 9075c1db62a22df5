// The ops that TensorFlow and the libraries loaded into it have registered.
#ifndef NPU_PRECISION_GRAPH_PASSES_GRAPH_REGISTERED_OPS_H_
#define NPU_PRECISION_GRAPH_PASSES_GRAPH_REGISTERED_OPS_H_

#include <string>
#include <vector>

#include "tensorflow/core/framework/op_def.pb.h"

namespace npu_precision {

// nullptr if there is no such op: the name is a function's, or its library is not loaded.
const tensorflow::OpDef* RegisteredOp(const std::string& name);

// The names are sorted.
std::vector<std::string> RegisteredOpNames();

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_GRAPH_REGISTERED_OPS_H_
