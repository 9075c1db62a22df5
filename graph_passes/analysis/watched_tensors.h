// Selects the tensors of a graph that a flight recorder watches.
#ifndef NPU_PRECISION_GRAPH_PASSES_ANALYSIS_WATCHED_TENSORS_H_
#define NPU_PRECISION_GRAPH_PASSES_ANALYSIS_WATCHED_TENSORS_H_

#include <string>
#include <vector>

#include "tensorflow/core/framework/types.pb.h"

namespace npu_precision {

// kLowered: tensors computed in a low type, or rounded to one. kAll: all tensors of a float type of
// up to 32 bits, and what the graph reads.
enum class Watch { kNothing = 0, kLowered = 1, kAll = 2 };

struct WatchedTensor {
  std::string node;
  std::string op;
  int port = 0;
  std::string device;
  // `low_type` is the type whose range counts: float32 if the tensor is not rounded.
  tensorflow::DataType dtype = tensorflow::DT_FLOAT, low_type = tensorflow::DT_FLOAT;
  // The place in the graph, in an order in which no op comes before its producers.
  int place = 0;
  // The place of the first watched tensor of the same loop, or -1 outside of loops.
  int loop = -1;
  // The nodes that compute from the rounded tensor, which may pass ops that yield its values.
  std::vector<std::string> readers;
};

// A node that the mode lowered, which a mixlist can keep in float32.
struct LoweredNode {
  std::string node;
  // As in WatchedTensor.
  int place = 0;
};

// Whether the output of a node is watched.
bool IsWatched(Watch watch, const std::string& op, tensorflow::DataType dtype);

// Whether the op yields a value that the graph reads rather than computes.
bool IsRead(const std::string& op);

// Whether the op yields values of its inputs, rounded or not, so that its readers compute from
// them.
bool PassesValues(const std::string& op);

// Whether the op rounds its input to a low type. Then its input is watched instead of its output.
// `from` and `to` are the dtypes of input and output.
bool Rounds(const std::string& op, tensorflow::DataType from, tensorflow::DataType to);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_ANALYSIS_WATCHED_TENSORS_H_
