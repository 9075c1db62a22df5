// Parses an input of a NodeDef: "producer", "producer:1" or, for a control input, "^producer".
#ifndef NPU_PRECISION_GRAPH_PASSES_GRAPH_INPUT_NAMES_H_
#define NPU_PRECISION_GRAPH_PASSES_GRAPH_INPUT_NAMES_H_

#include "absl/strings/string_view.h"

namespace npu_precision {

struct ParsedInput {
  absl::string_view producer;
  int port;  // 0 for a control input
  bool is_control;
};

// The text that was parsed must outlive the result. TensorFlow has ParseTensorName for this, but
// its header (graph/tensor_id.h) includes all of graph.h: seconds of compilation for one line.
ParsedInput ParseInput(absl::string_view input);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_GRAPH_INPUT_NAMES_H_
