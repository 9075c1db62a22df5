#include "graph_passes/decide/lowered_groups.h"

#include "graph_passes/graph/low_types.h"
#include "graph_passes/graph/marks.h"

namespace npu_precision {

std::vector<bool> LoweredGroups(const GraphView& view) {
  std::vector<bool> lowered(view.num_groups(), false);
  for (int id = 0; id < view.size(); ++id) {
    const tensorflow::NodeDef& node = view.node(id);
    DecisionMark mark;
    const bool carries = view.IsInserted(id) && node.op() != "Cast";
    if (!carries && !ReadDecisionMark(node, &mark)) continue;
    for (int g = 0; g < view.num_groups(id); ++g) {
      const TypeGroup& group = view.groups(id)[g];
      const bool changed = carries || mark.before.count(GroupName(*view.op_def(id), group)) != 0;
      lowered[view.first_group(id) + g] = changed && IsLowType(group.dtype);
    }
  }
  return lowered;
}

}  // namespace npu_precision
