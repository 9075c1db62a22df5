// Advice for users whose float16 graph runs on a CPU.
#ifndef NPU_PRECISION_CC_FLOAT16_ON_CPU_H_
#define NPU_PRECISION_CC_FLOAT16_ON_CPU_H_

#include <string>

#include "graph_passes/decide/dtype_support.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace npu_precision {

// The sentence for the log, where a CPU has no instructions for float16, or TensorFlow has no
// kernel that uses them, and this optimizer lowered a matrix product or a convolution of `graph` on
// it. "" where there is none. The sentence says whether such nodes compute in float32 instead, or
// in TensorFlow's kernels that emulate float16.
std::string Float16Advice(const tensorflow::GraphDef& graph, const DtypeSupport& support);

}  // namespace npu_precision

#endif  // NPU_PRECISION_CC_FLOAT16_ON_CPU_H_
