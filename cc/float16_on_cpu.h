// Advice for users whose float16 graph runs on a CPU.
#ifndef NPU_PRECISION_CC_FLOAT16_ON_CPU_H_
#define NPU_PRECISION_CC_FLOAT16_ON_CPU_H_

#include <string>

#include "graph_passes/decide/dtype_support.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace npu_precision {

// Returns the sentence for the log, or "" if it does not apply. It applies if this optimizer
// lowered a matrix product or a convolution of `graph` on a CPU that has no instructions for
// float16, or for which TensorFlow has no kernel that uses them. The sentence says whether such
// nodes compute in float32 instead, or in TensorFlow's kernels that emulate float16.
std::string Float16Advice(const tensorflow::GraphDef& graph, const DtypeSupport& support);

}  // namespace npu_precision

#endif  // NPU_PRECISION_CC_FLOAT16_ON_CPU_H_
