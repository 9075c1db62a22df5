// Gives the body of a While its own copy of a constant that each iteration only passes on:
//
//   While(Const, body)   body(w): return op(w), w   becomes   body(w): return op(Const), w
//
// TensorFlow's MatMul prepares constant weights once, but weights in a loop variable in every
// iteration. The variable stays, because the caller and the condition may read it; so the constant
// is stored twice.
//
// Refused: a variable that the body does not read; anything but a constant of a float dtype.
// The caller of this function ensures that the body returns the variable unchanged and has no other
// caller, and that the constant is not fed.
#ifndef NPU_PRECISION_GRAPH_PASSES_REWRITE_CONSTANTS_INTO_LOOPS_H_
#define NPU_PRECISION_GRAPH_PASSES_REWRITE_CONSTANTS_INTO_LOOPS_H_

#include <string>

#include "graph_passes/graph/graph_body.h"
#include "tensorflow/core/framework/node_def.pb.h"

namespace npu_precision {

// Copies `given`, which the body gets as `argument`. Returns false if it is refused. `copy` is the
// Identity that the body returns in place of the argument, or nullptr.
bool CopyConstantIntoLoop(const tensorflow::NodeDef& given, const std::string& argument,
                          const tensorflow::NodeDef* copy, GraphBody* body);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_REWRITE_CONSTANTS_INTO_LOOPS_H_
