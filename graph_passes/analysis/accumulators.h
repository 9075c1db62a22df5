// Values that accumulate: what a loop, or a caller with a function, computes from the same value of
// the last time by adding to it.
//
// Such a value keeps the rounding errors of all times. Once it is 256 times (bfloat16) or 2048
// times (float16) larger than a term, adding the term changes nothing, and a loop that runs until a
// sum is reached never ends.
#ifndef NPU_PRECISION_GRAPH_PASSES_ANALYSIS_ACCUMULATORS_H_
#define NPU_PRECISION_GRAPH_PASSES_ANALYSIS_ACCUMULATORS_H_

#include <set>
#include <string>
#include <vector>

#include "graph_passes/analysis/value_range.h"
#include "graph_passes/graph/graph_view.h"

namespace npu_precision {

// The nodes on a path
// - from a loop variable to its next value, or from an argument of a function to a result,
// - of ops that yield what they read with a gain of about 1: additions, moves, choices, maxima, and
//   products with a factor that does not forget,
// - with at least one op that adds to it, or multiplies it.
// A factor forgets if it is known to be below 0.9, or if it varies and comes from a matrix product,
// a list, or a Sigmoid, Tanh or Softmax, as the gate of an LSTM does: then errors fade too. One
// that is the same each time is a decay, however it was computed. A factor below 0.9 does not
// forget where another one on the same cycle makes the value larger: (99 * mean + x) / 100.
//
// `fed` are names of nodes. Paths end at nodes with `ends_path` set, by node id.
std::vector<int> Accumulators(const GraphView& view, const std::vector<ValueRange>& ranges,
                              const std::set<std::string>& fed, const std::vector<bool>& ends_path);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_ANALYSIS_ACCUMULATORS_H_
