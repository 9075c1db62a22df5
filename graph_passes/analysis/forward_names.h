// Finds the name of the forward op of a gradient node, by the names that TensorFlow builds.
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

// The names that the forward op may have, the likeliest first; empty if the node is not a gradient.
// The forward op of a second derivative is the first derivative.
std::vector<std::string> ForwardNames(absl::string_view gradient);

// Whether a tape or tf.gradients made a node of this name, even if the forward op has no name
// there: gradient_tape/MatMul_1 belongs to an op outside of any scope.
bool IsInGradientScope(absl::string_view name);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_ANALYSIS_FORWARD_NAMES_H_
