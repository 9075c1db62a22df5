// Writes a LayerNorm that is written out in the one public form that TensorFlow fuses into a single
// kernel with the epsilon of the graph: that of Keras 2, where each row is a channel of a batch
// norm whose scale is one and whose offset is zero.
//
//   mean = Mean(x); variance = Mean(SquaredDifference(x, mean)); r = Rsqrt(variance + epsilon)
//   y = x * (r * gamma) + (beta - mean * (r * gamma))            (or in another order)
//   becomes
//   norm = FusedBatchNormV3(Reshape(x, [1, -1, width, 1]), Fill(rows, 1), Fill(rows, 0),
//                           epsilon, data_format="NCHW", is_training=True)
//   y = AddV2(Mul(Reshape(norm, Shape(x)), gamma), beta)
//
// TensorFlow fuses that, into _MklLayerNorm, only for two and three dimensions, which the first
// Reshape must read as the second one restores them. A tensor of more, or one that is a Reshape
// itself, becomes one of two before it, and gets its shape back behind it. Where gamma or beta are
// absent, they are ones and zeros. What TensorFlow would fold into a constant before it fuses, so
// that it would not fuse, is behind a PlaceholderWithDefault.
//
// TensorFlow also fuses some LayerNorms that are written out, but with an epsilon of 0.001: those
// whose axis is counted from the first one. Of a LayerNorm that stays, the axis becomes -1:
//
//   Mean(x, [2])   becomes   Mean(x, [-1])
//
// Refused: what is no LayerNorm over the last axis with a positive epsilon outside of loops; other
// dtypes than float32; an x of unknown rank or width; gamma and beta that do not have the width of
// x; where another node reads a part of it, or refers to it, as gradients do; a last node with
// control inputs; where nodes do not share one fate (FusionSite); and where the machine has no such
// kernel for the low type of the mode.
#ifndef NPU_PRECISION_GRAPH_PASSES_FUSE_LAYER_NORM_H_
#define NPU_PRECISION_GRAPH_PASSES_FUSE_LAYER_NORM_H_

#include "graph_passes/rewrite/pass_state.h"
#include "tensorflow/core/lib/core/status.h"

namespace npu_precision {

tensorflow::Status WriteLayerNorms(PassState* state, bool* changed);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_FUSE_LAYER_NORM_H_
