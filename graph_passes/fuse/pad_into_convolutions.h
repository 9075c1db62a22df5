// A convolution adds the zeros around an image that a Pad before it added:
//
//   Pad(x) -> Conv2D(padding=VALID)   becomes   Conv2D(x, padding=SAME)
//                                     or        Conv2D(x, padding=EXPLICIT)
//
// SAME, where the size of the image is known and SAME means these zeros: so it is for the padding
// that Keras writes before a stride of 2. A depthwise convolution can say SAME alone; see
// grouped_convolutions.h. The zeros are the same in every dtype, so nothing is rounded otherwise.
//
// Refused: where the Pad stays, because one of its consumers is no such convolution, the caller
// fetches or feeds it, or a node has a control dependency on it; where it adds something else than
// zeros, or adds to the batch or the channels; where its amounts are not constants; dilations;
// channels first; and nodes that a user's file names.
#ifndef NPU_PRECISION_GRAPH_PASSES_FUSE_PAD_INTO_CONVOLUTIONS_H_
#define NPU_PRECISION_GRAPH_PASSES_FUSE_PAD_INTO_CONVOLUTIONS_H_

#include "graph_passes/rewrite/pass_state.h"
#include "tensorflow/core/lib/core/status.h"

namespace npu_precision {

tensorflow::Status PadIntoConvolutions(PassState* state, bool* changed);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_FUSE_PAD_INTO_CONVOLUTIONS_H_
