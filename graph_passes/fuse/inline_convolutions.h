// Runs a convolution that XLA compiles by itself as a kernel of oneDNN, which is several times as
// fast on a CPU. Keras compiles grouped convolutions so, because Eigen has no kernel of them.
//
// Before: y = PartitionedCall(x, w, f=step), step compiled by XLA: result = Conv2D(x, w).
// After: y = Conv2D(x, w).
#ifndef NPU_PRECISION_GRAPH_PASSES_FUSE_INLINE_CONVOLUTIONS_H_
#define NPU_PRECISION_GRAPH_PASSES_FUSE_INLINE_CONVOLUTIONS_H_

#include "graph_passes/rewrite/pass_state.h"
#include "tensorflow/core/framework/function.pb.h"
#include "tensorflow/core/lib/core/status.h"

namespace npu_precision {

// Whether the function is a convolution alone that XLA compiles.
bool IsCompiledConvolution(const tensorflow::FunctionDef& function);

// Needs the bodies of such functions in the graph's library.
tensorflow::Status InlineConvolutions(PassState* state, bool* changed);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_FUSE_INLINE_CONVOLUTIONS_H_
