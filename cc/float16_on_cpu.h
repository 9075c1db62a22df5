// What a user should know whose float16 graph runs on a CPU.
#ifndef NPU_PRECISION_CC_FLOAT16_ON_CPU_H_
#define NPU_PRECISION_CC_FLOAT16_ON_CPU_H_

#include <string>

#include "graph_passes/decide/dtype_support.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace npu_precision {

// Whether this optimizer lowered a matrix product or a convolution of `graph` that runs on a CPU to
// float16, for which that CPU has no instructions, or TensorFlow no kernel that uses them.
bool EmulatesFloat16(const tensorflow::GraphDef& graph, const DtypeSupport& support);

// What to say then.
std::string Float16Advice();

}  // namespace npu_precision

#endif  // NPU_PRECISION_CC_FLOAT16_ON_CPU_H_
