// Warns of models that have a mixed precision of their own, such as a policy of Keras.
#ifndef NPU_PRECISION_GRAPH_PASSES_DECIDE_MIXED_BY_MODEL_H_
#define NPU_PRECISION_GRAPH_PASSES_DECIDE_MIXED_BY_MODEL_H_

#include "graph_passes/decide/decision.h"
#include "graph_passes/graph/graph_view.h"

namespace npu_precision {

// Adds a warning if some products had a low type before, and the mode lowers others. A layer that
// the user excluded from the policy is then in the low type too.
void WarnOfMixedByModel(const GraphView& view, Decisions* decisions);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_DECIDE_MIXED_BY_MODEL_H_
