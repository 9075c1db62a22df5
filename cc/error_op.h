// The op that makes a run fail with the message of a user error.
//
// When an optimizer returns an error, TensorFlow silently falls back to the original graph. So this
// op is added instead, and every preserved node gets a control dependency on it.
#ifndef NPU_PRECISION_CC_ERROR_OP_H_
#define NPU_PRECISION_CC_ERROR_OP_H_

#include <string>
#include <unordered_set>

#include "tensorflow/core/framework/graph.pb.h"

namespace npu_precision {

extern const char kErrorOp[];

// The CPU of the task that `device` belongs to. Grappler requires a device for every node of a
// placed graph.
std::string CpuBeside(const std::string& device);

// Adds one error node, and a control dependency on it to every node of `preserved`.
void FailWhenRun(const std::string& message, const std::unordered_set<std::string>& preserved,
                 tensorflow::GraphDef* graph);

}  // namespace npu_precision

#endif  // NPU_PRECISION_CC_ERROR_OP_H_
