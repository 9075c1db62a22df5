// Finds constants through which alone a node waits for an effect.
//
// TensorFlow 1 gives a constant that is made in a scope of control dependencies these dependencies,
// and its reader none, because it has them through the constant:
//
//   AssignAdd ..> Const -> Mul -> fetched        (..> is a control dependency)
//
// A pass that takes the value of the Const and drops the node would drop the AssignAdd.
#ifndef NPU_PRECISION_GRAPH_PASSES_ANALYSIS_WAITING_CONSTANTS_H_
#define NPU_PRECISION_GRAPH_PASSES_ANALYSIS_WAITING_CONSTANTS_H_

#include <vector>

#include "graph_passes/graph/graph_view.h"

namespace npu_precision {

// By node id: whether the node is a Const, or an Identity behind one, with a reader that has no
// other input that comes after all effects that the node has control dependencies on.
std::vector<bool> FindWaitingConstants(const GraphView& view);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_ANALYSIS_WAITING_CONSTANTS_H_
