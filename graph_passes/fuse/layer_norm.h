// Writes a LayerNorm made of single ops in the form of Keras 2: each row is a channel of a batch
// norm with scale one and offset zero. It is the only public form that TensorFlow fuses into a
// single kernel with the epsilon of the graph.
//
//   mean = Mean(x); variance = Mean(SquaredDifference(x, mean)); r = Rsqrt(variance + epsilon)
//   y = x * (r * gamma) + (beta - mean * (r * gamma))            (or in another order)
//   becomes
//   norm = FusedBatchNormV3(Reshape(x, [1, -1, width, 1]), Fill(rows, 1), Fill(rows, 0),
//                           epsilon, data_format="NCHW", is_training=True)
//   y = AddV2(Mul(Reshape(norm, Shape(x)), gamma), beta)
//
// TensorFlow fuses that into _MklLayerNorm, but only for two and three dimensions, and only if the
// second Reshape restores the dimensions that the first one reads. A tensor with more dimensions,
// or one that comes from a Reshape, is reshaped to two dimensions before, and back behind. An
// absent gamma or beta becomes ones or zeros. Inputs that TensorFlow would fold into a constant,
// which prevents the fusion, are hidden behind a PlaceholderWithDefault.
//
// TensorFlow also fuses some LayerNorms made of single ops, but with an epsilon of 0.001: those
// whose axis is counted from the first one. In a LayerNorm that stays, the axis becomes -1 to
// prevent that:
//
//   Mean(x, [2])   becomes   Mean(x, [-1])
//
// Refused: anything but a LayerNorm over the last axis with a positive epsilon outside of loops;
// other dtypes than float32; an x of unknown rank or width; gamma and beta with another width than
// x; a part that another node reads or refers to, as gradients do; a last node with control inputs;
// nodes that cannot be replaced together (FusionSite); and a machine without such a kernel for the
// low type of the mode.
#ifndef NPU_PRECISION_GRAPH_PASSES_FUSE_LAYER_NORM_H_
#define NPU_PRECISION_GRAPH_PASSES_FUSE_LAYER_NORM_H_

#include "graph_passes/rewrite/pass_state.h"
#include "tensorflow/core/lib/core/status.h"

namespace npu_precision {

tensorflow::Status WriteLayerNorms(PassState* state, bool* changed);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_FUSE_LAYER_NORM_H_
