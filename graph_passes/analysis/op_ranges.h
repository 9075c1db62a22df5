// Computes the range of an op's outputs from the ranges of its inputs.
#ifndef NPU_PRECISION_GRAPH_PASSES_ANALYSIS_OP_RANGES_H_
#define NPU_PRECISION_GRAPH_PASSES_ANALYSIS_OP_RANGES_H_

#include <string>

#include "absl/types/span.h"
#include "graph_passes/analysis/value_range.h"
#include "tensorflow/core/framework/node_def.pb.h"

namespace npu_precision {

struct OpRangeInputs {
  const tensorflow::NodeDef& node;
  // The ranges of the data inputs. Inputs that are not of a float dtype are unknown.
  absl::Span<const ValueRange> ranges;
  bool first_two_are_one;  // Both read the same tensor, so x * x is a square.
  // For a Sum, the number of elements it adds up; for a product, that of products that each element
  // adds up. Infinity if unknown.
  double num_terms;
};

// Returns the range of all outputs of a node.
using OpRange = ValueRange (*)(const OpRangeInputs& inputs);

// The function for an op; nullptr if nothing is known about the op. There is no default: an op that
// is not listed is unknown, however harmless it looks.
OpRange OpRangeOf(const std::string& op);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_ANALYSIS_OP_RANGES_H_
