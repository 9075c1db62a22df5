// A mean over height and width becomes an average pool whose window is the whole image:
//
//   Mean(x, [1, 2], keep_dims=true)   becomes  AvgPool(x, ksize=[1, height, width, 1])
//   Mean(x, [1, 2], keep_dims=false)  becomes  Squeeze(AvgPool(x, ...), [1, 2])
//
// It is for a TensorFlow whose Mean adds in the low type, so that it is on the black list there and
// stands between Casts, as squeeze-and-excite and global pooling do. oneDNN's pool adds in float32
// and rounds once.
//
// Refused: where the lists let Mean be lowered, or AvgPool not; where oneDNN does not run the
// graph, or nobody knows what will, because TensorFlow's own pool adds in the low type as well;
// where height or width are not known; where the input keeps float32 in any case; and nodes that
// keep float32 by their scope, or that a user's file names.
#ifndef NPU_PRECISION_GRAPH_PASSES_FUSE_MEANS_AS_POOLS_H_
#define NPU_PRECISION_GRAPH_PASSES_FUSE_MEANS_AS_POOLS_H_

#include "graph_passes/rewrite/pass_state.h"
#include "tensorflow/core/lib/core/status.h"

namespace npu_precision {

tensorflow::Status WriteMeansAsPools(PassState* state, bool* changed);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_FUSE_MEANS_AS_POOLS_H_
