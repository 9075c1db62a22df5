// Gives the body of a While a constant of its own, where each iteration only passes one on:
//
//   While(Const, body)   body(w): return op(w), w   becomes   body(w): return op(Const), w
//
// TensorFlow's MatMul prepares weights that are a constant once, and those that are a loop variable
// in every iteration. The variable stays, because the caller and the condition may read it; so the
// constant is stored twice.
//
// Refused: a variable that the body does not read; what is no constant of a float dtype. The caller
// of this has to know that the body returns the variable unchanged and has no other caller, and
// that the constant is not fed.
#ifndef NPU_PRECISION_GRAPH_PASSES_REWRITE_CONSTANTS_INTO_LOOPS_H_
#define NPU_PRECISION_GRAPH_PASSES_REWRITE_CONSTANTS_INTO_LOOPS_H_

#include <string>

#include "graph_passes/graph/graph_body.h"
#include "tensorflow/core/framework/node_def.pb.h"

namespace npu_precision {

// Does so with `given`, which the body gets as `argument`; false where it may not. `copy` is the
// Identity that the body returns in place of the argument, or nullptr.
bool CopyConstantIntoLoop(const tensorflow::NodeDef& given, const std::string& argument,
                          const tensorflow::NodeDef* copy, GraphBody* body);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_REWRITE_CONSTANTS_INTO_LOOPS_H_
