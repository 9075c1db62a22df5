// Finds nodes that keep their dtype because of a mark set by Python.
#ifndef NPU_PRECISION_GRAPH_PASSES_DECIDE_KEPT_BY_MARK_H_
#define NPU_PRECISION_GRAPH_PASSES_DECIDE_KEPT_BY_MARK_H_

#include "graph_passes/decide/decide_context.h"
#include "graph_passes/decide/decision.h"
#include "tensorflow/core/framework/node_def.pb.h"

namespace npu_precision {

// Returns kKeepDtypeScope, kAutocastDisabled, kOutsideAutocast if another run decides about the
// node, or kNone. A node name in the mixlist beats the scope in which the node was built.
Reason KeptByMark(const tensorflow::NodeDef& node, const DecideContext& context, bool is_named);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_DECIDE_KEPT_BY_MARK_H_
