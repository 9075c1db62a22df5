// The state that the rules of rule_table.h read and write: the graph, the context, and the findings
// of earlier rules about each node and type group.
#ifndef NPU_PRECISION_GRAPH_PASSES_DECIDE_DECIDE_STATE_H_
#define NPU_PRECISION_GRAPH_PASSES_DECIDE_DECIDE_STATE_H_

#include <vector>

#include "graph_passes/analysis/accumulators.h"
#include "graph_passes/decide/classify_nodes.h"
#include "graph_passes/decide/decide_context.h"
#include "graph_passes/decide/decision.h"
#include "graph_passes/decide/group_state.h"
#include "graph_passes/decide/nodes_by_reason.h"
#include "graph_passes/decide/small_operands.h"
#include "graph_passes/graph/constant_values.h"
#include "graph_passes/graph/graph_view.h"

namespace npu_precision {

struct DecideState {
  DecideState(const GraphView& view, const ConstantValues& values, const DecideContext& context,
              Decisions* decisions)
      : view(view), values(values), context(context), decisions(*decisions) {}

  ModeRule mode() const { return context.mode.rule; }

  const GraphView& view;
  const ConstantValues& values;
  const DecideContext& context;
  Decisions& decisions;

  NodeClasses classes;             // from classify_nodes
  std::vector<GroupState> groups;  // by the view's group numbers, from apply_mode on
  std::vector<bool> ends_path;     // by node id: no keep rule follows a path through the node
  std::vector<Accumulator> accumulators;
  NodesByReason lowered_anyway;  // nodes that a keep rule would keep, in a mode that lowers them
  std::vector<int> leader;       // by group: the group that decides for it; from shared_dtypes
  SmallOperands small_operands;
};

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_DECIDE_DECIDE_STATE_H_
