// Keeps float32 in the products that a linear solver, an inverse or a decomposition reads, and in
// those of a solution.
//
// A solver multiplies an error by the condition number of its matrix. A Gram matrix has the square
// of its factor's, which may be more than a low type can tell apart.
#ifndef NPU_PRECISION_GRAPH_PASSES_DECIDE_BEFORE_SOLVERS_H_
#define NPU_PRECISION_GRAPH_PASSES_DECIDE_BEFORE_SOLVERS_H_

#include <vector>

#include "graph_passes/decide/decide_context.h"
#include "graph_passes/decide/kept_group.h"
#include "graph_passes/graph/constant_values.h"
#include "graph_passes/graph/graph_view.h"

namespace npu_precision {

// Returns, with reason before_magnifier and the solver as the cause, the groups between a solver
// and the first matrix products before it, through elementwise ops and moves; and those products.
// It goes on behind a product to the products that it multiplies, unless one of its factors is a
// weight: that product is a layer. Also the products that read a solution, directly or after moves.
// Paths end at nodes with `ends_path` set, by node id.
std::vector<KeptGroup> BeforeSolvers(const GraphView& view, const ConstantValues& values,
                                     const DecideContext& context,
                                     const std::vector<bool>& ends_path);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_DECIDE_BEFORE_SOLVERS_H_
