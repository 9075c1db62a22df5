// Sets the dtypes of each node by the votes of its groups, and the reason of its decision.
#ifndef NPU_PRECISION_GRAPH_PASSES_DECIDE_CONCLUDE_H_
#define NPU_PRECISION_GRAPH_PASSES_DECIDE_CONCLUDE_H_

#include "graph_passes/decide/decide_state.h"

namespace npu_precision {

// Sets `group_dtypes` and the verdicts of all nodes. Explains each float node that no rule has
// explained, or whose reason does not agree with the votes. A node that does not change keeps the
// decision of an earlier run.
void Conclude(DecideState* state);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_DECIDE_CONCLUDE_H_
