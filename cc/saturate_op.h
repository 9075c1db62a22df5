// The ops that make an emulated graph overflow as on an Ascend 910, and the overflows that they
// have seen. See graph_passes/rewrite/saturate_overflows.h.
#ifndef NPU_PRECISION_CC_SATURATE_OP_H_
#define NPU_PRECISION_CC_SATURATE_OP_H_

#include <map>
#include <string>

#include "tensorflow/core/framework/graph.pb.h"

namespace npu_precision {

// Whether any value in this process saturated since the last call by anyone.
bool TakeOverflow();
// The number of values that saturated since the last call, by the name of the node that rounded.
std::map<std::string, long long> TakeSaturations();

// Moves these ops from other devices to the CPU of the same task, because they have kernels for
// CPUs only.
void PlaceSaturationOnCpu(tensorflow::GraphDef* graph);

}  // namespace npu_precision

#endif  // NPU_PRECISION_CC_SATURATE_OP_H_
