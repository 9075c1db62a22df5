// Writes a mean over height and width as an average pool whose window is the whole image:
//
//   Mean(x, [1, 2], keep_dims=true)   becomes  AvgPool(x, ksize=[1, height, width, 1])
//   Mean(x, [1, 2], keep_dims=false)  becomes  Squeeze(AvgPool(x, ...), [1, 2])
//
// This is for a TensorFlow whose Mean adds in the low type. Mean is then on the black list and
// stands between Casts, as in squeeze-and-excite and global pooling. oneDNN's pool adds in float32
// and rounds once.
//
// Refused: lists that let Mean be lowered, or do not let AvgPool be lowered; a graph that is not
// known to run with oneDNN, because TensorFlow's own pool also adds in the low type; an unknown
// height or width; an input that keeps float32 in any case; and nodes that keep float32 by their
// scope, or that a user's file names.
#ifndef NPU_PRECISION_GRAPH_PASSES_FUSE_MEANS_AS_POOLS_H_
#define NPU_PRECISION_GRAPH_PASSES_FUSE_MEANS_AS_POOLS_H_

#include "graph_passes/rewrite/pass_state.h"
#include "tensorflow/core/lib/core/status.h"

namespace npu_precision {

tensorflow::Status WriteMeansAsPools(PassState* state, bool* changed);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_FUSE_MEANS_AS_POOLS_H_
