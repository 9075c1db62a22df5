// Finds differences of values that may be almost equal, because both come from the same number: a
// forecast less the last price that it was added to, a measurement less its prediction, a turned
// place less the next one.
//
// The difference then has only the digits in which the two sides differ. Layers subtract values of
// their own, which differ in all digits.
#ifndef NPU_PRECISION_GRAPH_PASSES_ANALYSIS_CLOSE_DIFFERENCES_H_
#define NPU_PRECISION_GRAPH_PASSES_ANALYSIS_CLOSE_DIFFERENCES_H_

#include <vector>

#include "graph_passes/analysis/value_range.h"
#include "graph_passes/graph/graph_view.h"
#include "graph_passes/graph/op_set.h"

namespace npu_precision {

struct CloseDifference {
  int difference;  // the Sub, SquaredDifference, ArgMax or TopKV2
  // The inputs whose digits count.
  std::vector<OutputPort> sides;
  // Not -1 if both sides are as close as the rows of this product: they count if it is kept.
  int product = -1;
};

// Finds, in the order of their names:
// - a difference with one side that the caller gave the graph (a measurement, a target), or that is
//   a constant number of 16 or more: the other side counts, unless it is a step of weights,
// - a difference whose sides come from one tensor by moves, choices, means, and factors that are
//   numbers, if that tensor is a product, or a sum with what the caller gave: both sides count.
//   A norm, which subtracts a mean of its input, counts only where that is a matrix product,
// - what chooses the largest elements of such a sum.
// `takes_arguments` says whether the caller gives the function's arguments; those of a loop's body
// are its own.
std::vector<CloseDifference> CloseDifferences(const GraphView& view,
                                              const std::vector<ValueRange>& ranges,
                                              bool takes_arguments);

// Whether a matrix product reads only what is given, constants and variables, their sums, other
// such products, and the weights of a mean from a Softmax: no hidden layer.
class LayerReads {
 public:
  explicit LayerReads(const GraphView& view);
  bool ReadsNone(int product) const;

 private:
  const GraphView& view_;
  const OpSet picks_, ends_, is_linear_;
};

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_ANALYSIS_CLOSE_DIFFERENCES_H_
