// Finds what decides that a loop has converged: it runs until a difference is small, such as that
// of a value and the value before, or a residual.
//
// A value that is rounded anew in each iteration may never come closer to the last one than a step
// of the low type. Then the loop never ends.
//
//   while max(abs(z - old)) > 1e-5: z, old = tanh(z @ w + x), z
#ifndef NPU_PRECISION_GRAPH_PASSES_ANALYSIS_LOOP_ENDS_H_
#define NPU_PRECISION_GRAPH_PASSES_ANALYSIS_LOOP_ENDS_H_

#include <set>
#include <string>
#include <vector>

#include "graph_passes/graph/graph_view.h"
#include "graph_passes/graph/marks.h"

namespace npu_precision {

struct DecidesEnd {
  int node;
  int comparison;  // the node that compares the difference; if another function does, the result
};

struct LoopEnds {
  // In the order of the search. A node may be in it several times.
  std::vector<DecidesEnd> nodes;
  // The arguments that the search reached, if the graph is the condition of a While.
  std::vector<ReadByCondition> arguments;
};

// Looks at a condition of a loop back through logical ops to the comparisons of floats. A
// comparison counts if one side is, through moves, magnitudes, norms and scalings, a difference of
// two tensors that is not a sum over the iterations itself, as `left -= p` is. Returns the
// difference, and what leads to it through moves, sums, scalings and matrix products up to
// - a loop variable that depends on its last value: all nodes on its cycle too, or
// - an activation or any other op.
// So a loop that ends at a count, a token, a probability or the best score has no such nodes.
//
// The conditions are those of TensorFlow 1 loops; the only result of a function, if that is a bool;
// and, in the body of a While, what `read` says of its results. `fed` are names of nodes. Paths end
// at nodes with `ends_path` set, by node id.
LoopEnds FindLoopEnds(const GraphView& view, const std::set<std::string>& fed,
                      const std::vector<bool>& ends_path, const std::vector<ReadByCondition>& read);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_ANALYSIS_LOOP_ENDS_H_
