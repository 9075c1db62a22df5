#include "graph_passes/analysis/loop_nodes.h"

#include <string>

#include "graph_passes/graph/control_inputs.h"
#include "graph_passes/graph/op_set.h"
#include "graph_passes/graph/op_traits.h"

namespace npu_precision {

std::vector<bool> LoopNodes(const GraphView& view) {
  const OpSet exits(view, IsExit);
  std::vector<bool> in_loop(view.size(), false);
  std::vector<int> open = OpSet(view, IsEnter).Ids();
  if (open.empty()) return in_loop;
  std::vector<std::vector<int>> waiting(view.size());
  for (int id = 0; id < view.size(); ++id) {
    VisitControlInputs(view, id, [&](int, int on) {
      if (on >= 0) waiting[on].push_back(id);
    });
  }
  for (int id : open) in_loop[id] = true;
  const auto reach = [&](int id) {
    if (in_loop[id] || exits.Has(id)) return;
    in_loop[id] = true;
    open.push_back(id);
  };
  for (size_t i = 0; i < open.size(); ++i) {
    const int id = open[i];
    for (const InputPort& use : view.fanout(id)) reach(use.node);
    for (int later : waiting[id]) reach(later);
  }
  return in_loop;
}

}  // namespace npu_precision
