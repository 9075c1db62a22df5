// Advice for users whose float16 graph runs on a CPU.
#ifndef NPU_PRECISION_CC_FLOAT16_ON_CPU_H_
#define NPU_PRECISION_CC_FLOAT16_ON_CPU_H_

#include <string>

#include "graph_passes/decide/dtype_support.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace npu_precision {

// Whether a CPU emulates float16 in `graph`: this optimizer lowered a matrix product or a
// convolution there, and the CPU has no instructions for float16, or TensorFlow has no kernel that
// uses them.
bool EmulatesFloat16(const tensorflow::GraphDef& graph, const DtypeSupport& support);

// The sentence for the log.
std::string Float16Advice();

}  // namespace npu_precision

#endif  // NPU_PRECISION_CC_FLOAT16_ON_CPU_H_
