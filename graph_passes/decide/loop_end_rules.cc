#include "graph_passes/decide/loop_end_rules.h"

#include "graph_passes/analysis/loop_ends.h"

namespace npu_precision {

std::vector<KeptGroup> LoopEndRules(const GraphView& view, const DecideContext& context,
                                    const std::vector<bool>& ends_path) {
  std::vector<KeptGroup> keeps;
  for (const DecidesEnd& each :
       FindLoopEnds(view, context.fed, ends_path, context.read_by_condition).nodes) {
    for (int g = 0; g < view.num_groups(each.node); ++g) {
      keeps.push_back({view.first_group(each.node) + g, Reason::kBeforeMagnifier, each.comparison});
    }
  }
  return keeps;
}

}  // namespace npu_precision
