// Rounds by XlaReducePrecision in functions that XLA compiles. XLA may drop a Cast to a low type
// and back, as it may compute with more precision than asked for.
//
// Before: x -> Cast(bfloat16) -> Cast(float32) -> MatMul.
// After: x -> XlaReducePrecision(exponent_bits=8, mantissa_bits=7) -> MatMul.
//
// For float16, that op makes numbers below 2^-14 zero. So these are rounded to multiples of 2^-24:
// x -> Mul(2^24) -> Rint -> Mul(2^-24), and SelectV2 chooses by Less(Abs(x), 2^-14).
//
// Only inserted Casts are replaced: a user's own have always been XLA's.
#ifndef NPU_PRECISION_GRAPH_PASSES_REWRITE_ROUND_FOR_XLA_H_
#define NPU_PRECISION_GRAPH_PASSES_REWRITE_ROUND_FOR_XLA_H_

#include <string>
#include <vector>

#include "graph_passes/rewrite/pass_state.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/lib/core/status.h"

namespace npu_precision {

tensorflow::Status RoundForXla(PassState* state, bool* changed);

// The same for a graph; returns the names of the nodes that round now.
std::vector<std::string> RoundForXla(tensorflow::GraphDef* graph);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_REWRITE_ROUND_FOR_XLA_H_
