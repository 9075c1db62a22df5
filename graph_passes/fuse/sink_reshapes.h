// Moves a Reshape between a MatMul and its BiasAdd behind both, and behind the activation. It also
// moves a Reshape directly behind the BiasAdd to behind the activation:
//
//   MatMul -> Reshape -> BiasAdd -> Gelu   becomes   MatMul -> BiasAdd -> Gelu -> Reshape
//   MatMul -> BiasAdd -> Reshape -> Gelu   becomes   MatMul -> BiasAdd -> Gelu -> Reshape
//
// Keras' Dense reshapes an input of three dimensions to two, and back before it adds the bias.
// TensorFlow fuses a bias, and an activation, only into a MatMul that they directly follow.
//
// Refused: weights, or a bias behind the Reshape, that are not constants or differ in width; a
// MatMul or a Reshape with another reader or a control dependency on it; a node whose shape changes
// and that the caller fetches or feeds; nodes with control inputs, or of several devices or dtypes.
#ifndef NPU_PRECISION_GRAPH_PASSES_FUSE_SINK_RESHAPES_H_
#define NPU_PRECISION_GRAPH_PASSES_FUSE_SINK_RESHAPES_H_

#include "graph_passes/rewrite/pass_state.h"
#include "tensorflow/core/lib/core/status.h"

namespace npu_precision {

// Applies to the ops of a low type.
tensorflow::Status SinkReshapes(PassState* state, bool* changed);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_FUSE_SINK_RESHAPES_H_
