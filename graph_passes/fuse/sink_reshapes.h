// Moves a Reshape from between a MatMul and its BiasAdd to behind both, and behind the activation;
// also one from right behind the BiasAdd to behind the activation:
//
//   MatMul -> Reshape -> BiasAdd -> Gelu   becomes   MatMul -> BiasAdd -> Gelu -> Reshape
//   MatMul -> BiasAdd -> Reshape -> Gelu   becomes   MatMul -> BiasAdd -> Gelu -> Reshape
//
// Keras' Dense reshapes an input of three dimensions to two and back before it adds the bias, and
// TensorFlow fuses a bias, and an activation, into the MatMul that they follow at once only.
//
// Refused: where the weights, or a bias that stands behind the Reshape, are not constants, or not
// as wide as each other; where another node reads the MatMul or the Reshape, or has a control
// dependency on it; where the caller fetches or feeds a node whose shape changes; nodes with
// control inputs, or of several devices or dtypes.
#ifndef NPU_PRECISION_GRAPH_PASSES_FUSE_SINK_RESHAPES_H_
#define NPU_PRECISION_GRAPH_PASSES_FUSE_SINK_RESHAPES_H_

#include "graph_passes/rewrite/pass_state.h"
#include "tensorflow/core/lib/core/status.h"

namespace npu_precision {

// Of the ops of a low type.
tensorflow::Status SinkReshapes(PassState* state, bool* changed);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_FUSE_SINK_RESHAPES_H_
