// How much time the low type costs or saves in the kernels of elementwise ops.
#ifndef NPU_PRECISION_GRAPH_PASSES_DECIDE_KERNEL_COSTS_H_
#define NPU_PRECISION_GRAPH_PASSES_DECIDE_KERNEL_COSTS_H_

#include "tensorflow/core/framework/node_def.pb.h"

namespace npu_precision {

// The time that the node takes longer in bfloat16 than in float32 on a CPU, in the time of a Cast
// of as many elements as it computes. TensorFlow's own kernels of such ops convert each element to
// float32 and back. 0 for an op that takes about the same time, or was not measured.
double ExtraCasts(const tensorflow::NodeDef& node);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_DECIDE_KERNEL_COSTS_H_
