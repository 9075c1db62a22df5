// The ops of an emulated graph that overflows as an Ascend 910 does, and what they have seen. See
// graph_passes/rewrite/saturate_overflows.h.
#ifndef NPU_PRECISION_CC_SATURATE_OP_H_
#define NPU_PRECISION_CC_SATURATE_OP_H_

#include <map>
#include <string>

#include "tensorflow/core/framework/graph.pb.h"

namespace npu_precision {

// Whether any value of this process saturated since this was last asked, by anyone.
bool TakeOverflow();
// By the name of the node that rounded, how many values saturated since this was last asked.
std::map<std::string, long long> TakeSaturations();

// The ops have kernels for CPUs only: moves those on other devices to the CPU beside.
void PlaceSaturationOnCpu(tensorflow::GraphDef* graph);

}  // namespace npu_precision

#endif  // NPU_PRECISION_CC_SATURATE_OP_H_
