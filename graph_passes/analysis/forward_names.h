// The name of the forward op that a gradient node belongs to, as TensorFlow builds names.
//
//     gradients/dense/MatMul_grad/MatMul_1           dense/MatMul        (tf.gradients)
//     train/gradients_1/dense/MatMul_grad/MatMul     dense/MatMul        (in a name scope)
//     gradient_tape/model/dense/MatMul/MatMul_1      model/dense/MatMul  (GradientTape)
//     call/gradient_tape/dense/MatMul/MatMul         call/dense/MatMul   (inlined)
#ifndef NPU_PRECISION_GRAPH_PASSES_ANALYSIS_FORWARD_NAMES_H_
#define NPU_PRECISION_GRAPH_PASSES_ANALYSIS_FORWARD_NAMES_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace npu_precision {

// The names that the forward op may have, the likeliest first; empty where the node is of no
// gradient. A gradient of a gradient has that as its forward op.
std::vector<std::string> ForwardNames(absl::string_view gradient);

// Whether a tape or tf.gradients has made a node of this name, whatever its forward op: that of
// gradient_tape/MatMul_1 is in no scope, and so has no name of its own there.
bool IsInGradientScope(absl::string_view name);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_ANALYSIS_FORWARD_NAMES_H_
