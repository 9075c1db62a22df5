// Finds values that accumulate: each iteration of a loop, or each call of a function, adds to the
// value of the one before.
//
// Such a value collects the rounding errors of all iterations. Once it is 256 times (bfloat16) or
// 2048 times (float16) larger than a term, adding the term changes nothing. A loop that runs until
// the sum reaches a limit then never ends.
#ifndef NPU_PRECISION_GRAPH_PASSES_ANALYSIS_ACCUMULATORS_H_
#define NPU_PRECISION_GRAPH_PASSES_ANALYSIS_ACCUMULATORS_H_

#include <set>
#include <string>
#include <vector>

#include "graph_passes/analysis/value_range.h"
#include "graph_passes/graph/constant_values.h"
#include "graph_passes/graph/graph_view.h"
#include "graph_passes/graph/marks.h"

namespace npu_precision {

struct Accumulator {
  int node;
  bool over_iterations;  // of a loop; else over the calls of a function
};

// Returns the nodes on a path
// - from a loop variable to its next value, or from an argument of a function to a result, unless
//   `role` says that the function is a branch that adds up nothing,
// - of ops that yield an input with a gain of about 1: additions, moves, choices, maxima, and
//   products with a factor that does not forget; in a loop, also of matrix products whose other
//   factor does not vary, if no activation is on the path,
// - with at least one op that adds to the value, or multiplies it.
// A factor forgets if it is known to be below 0.9. It also forgets if it varies and comes from a
// matrix product, a list, or a Sigmoid, Tanh or Softmax, as the gate of an LSTM does: then errors
// fade too. A factor that is the same each time is a decay, however it was computed. A factor below
// 0.9 does not forget if another factor on the same cycle makes the value larger, as in
// (99 * mean + x) / 100.
// The nodes of UnrolledSteps() count as those of a loop.
//
// `fed` are names of nodes. Paths end at nodes with `ends_path` set, by node id.
std::vector<Accumulator> Accumulators(const GraphView& view, const ConstantValues& values,
                                      const std::vector<ValueRange>& ranges,
                                      const std::set<std::string>& fed,
                                      const std::vector<bool>& ends_path, BodyRole role);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_ANALYSIS_ACCUMULATORS_H_
