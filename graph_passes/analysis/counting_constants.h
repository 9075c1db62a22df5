// Recognizes constants that count: tf.range, a grid of pixels, the times of samples.
#ifndef NPU_PRECISION_GRAPH_PASSES_ANALYSIS_COUNTING_CONSTANTS_H_
#define NPU_PRECISION_GRAPH_PASSES_ANALYSIS_COUNTING_CONSTANTS_H_

#include "graph_passes/graph/constant_values.h"
#include "tensorflow/core/framework/node_def.pb.h"
#include "tensorflow/core/framework/types.pb.h"

namespace npu_precision {

enum class Counting : unsigned char { kNo, kFinely, kCoarsely };

// Whether the values of a Const are at least 16 equal steps along a dimension, and then, whether
// the distance between the low type's values is more than a quarter of a step somewhere. Only the
// first and the last line along each dimension are looked at.
Counting CountsOf(const tensorflow::NodeDef& constant, const ConstantValues& values,
                  tensorflow::DataType low_type);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_ANALYSIS_COUNTING_CONSTANTS_H_
