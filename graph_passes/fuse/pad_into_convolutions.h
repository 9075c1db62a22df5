// Removes a Pad before a convolution: the convolution then adds the zeros around the image by
// itself.
//
//   Pad(x) -> Conv2D(padding=VALID)   becomes   Conv2D(x, padding=SAME)
//                                     or        Conv2D(x, padding=EXPLICIT)
//
// SAME is used if the size of the image is known and SAME adds exactly these zeros. That holds for
// the padding that Keras writes before a stride of 2. A depthwise convolution supports SAME only;
// see grouped_convolutions.h. The zeros are the same in every dtype, so no rounding changes.
//
// Refused: a Pad that must stay, because one of its consumers is not such a convolution, the caller
// fetches or feeds it, or a node has a control dependency on it; a Pad that adds other values than
// zeros, or pads the batch or the channels; amounts that are not constants; dilations; channels
// first; and nodes that a user's file names.
#ifndef NPU_PRECISION_GRAPH_PASSES_FUSE_PAD_INTO_CONVOLUTIONS_H_
#define NPU_PRECISION_GRAPH_PASSES_FUSE_PAD_INTO_CONVOLUTIONS_H_

#include "graph_passes/rewrite/pass_state.h"
#include "tensorflow/core/lib/core/status.h"

namespace npu_precision {

tensorflow::Status PadIntoConvolutions(PassState* state, bool* changed);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_FUSE_PAD_INTO_CONVOLUTIONS_H_
