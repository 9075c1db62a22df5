// What an op makes of the ranges of its inputs.
#ifndef NPU_PRECISION_GRAPH_PASSES_ANALYSIS_OP_RANGES_H_
#define NPU_PRECISION_GRAPH_PASSES_ANALYSIS_OP_RANGES_H_

#include <string>

#include "absl/types/span.h"
#include "graph_passes/analysis/value_range.h"
#include "tensorflow/core/framework/node_def.pb.h"

namespace npu_precision {

struct OpRangeInputs {
  const tensorflow::NodeDef& node;
  // Of the data inputs. Those that are not of a float dtype are unknown.
  absl::Span<const ValueRange> ranges;
  bool first_two_are_one;  // both read the same tensor, so that x * x is a square
  double num_terms;        // of a Sum: how many elements it adds up; infinity if unknown
};

// The range of all outputs of a node.
using OpRange = ValueRange (*)(const OpRangeInputs& inputs);

// nullptr for an op of which nothing is known. There is no default: an op that is not listed is
// unknown, however harmless it looks.
OpRange OpRangeOf(const std::string& op);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_ANALYSIS_OP_RANGES_H_
