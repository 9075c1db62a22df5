// Writes the ops that TensorFlow's remapper fused in float32 as the ops that they stand for:
//
//   relu = _FusedConv2D(x, w, b)   becomes   relu/npu_part_0 = Conv2D(x, w),
//                                            relu/npu_part_1 = BiasAdd(relu/npu_part_0, b),
//                                            relu = Relu(relu/npu_part_1)
//
// The remapper runs before an entry that is written by hand into a session's config. What is left
// is the graph that the entries of npu_config_proto() get, and the remapper fuses it anew in
// Grappler's second iteration.
//
// Refused: nodes that the caller feeds; nodes on GPUs, where nothing was measured; and graphs that
// run elsewhere, where nothing may fuse them again. There, the decisions split what they must
// (decide/plan_fused_ops.h).
#ifndef NPU_PRECISION_GRAPH_PASSES_FUSE_SPLIT_FUSED_OPS_H_
#define NPU_PRECISION_GRAPH_PASSES_FUSE_SPLIT_FUSED_OPS_H_

#include "graph_passes/rewrite/pass_state.h"
#include "tensorflow/core/lib/core/status.h"

namespace npu_precision {

tensorflow::Status SplitFusedOps(PassState* state, bool* changed);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_FUSE_SPLIT_FUSED_OPS_H_
