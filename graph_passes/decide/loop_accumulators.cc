#include "graph_passes/decide/loop_accumulators.h"

#include "graph_passes/graph/op_set.h"
#include "graph_passes/graph/op_traits.h"

namespace npu_precision {
namespace {

bool Adds(const InputPort& use, const std::string& op) {
  return op == "Add" || op == "AddV2" || op == "AddN" || (op == "Sub" && use.index == 0);
}

// Whether the node yields its input: an Identity, or a Cast that an earlier run inserted.
bool YieldsItsInput(const GraphView& view, int id) {
  return view.node(id).op() == "Identity" || view.IsTransparentCast(id);
}

// The only use of the loop variable besides Exit, or {-1, 0} where there is none or more than one.
// `carriers` gets the Merge and the nodes between it and that use.
InputPort OnlyUse(const GraphView& view, int merge, std::vector<int>* carriers) {
  InputPort only = {-1, 0};
  std::vector<int>& nodes = *carriers;
  nodes = {merge};
  // The bound ends the walk on a damaged graph whose Identity nodes form a cycle.
  for (size_t i = 0; i < nodes.size() && static_cast<int>(i) <= view.size(); ++i) {
    for (const InputPort& use : view.fanout(nodes[i])) {
      const std::string& op = view.node(use.node).op();
      const bool value_index = nodes[i] == merge && view.fanin(use.node)[use.index].port != 0;
      if (op == "Exit" || value_index) continue;
      if (YieldsItsInput(view, use.node) || (op == "Switch" && use.index == 0)) {
        nodes.push_back(use.node);
      } else if (only.node >= 0) {
        return {-1, 0};
      } else {
        only = use;
      }
    }
  }
  return only;
}

// Whether node `id` computes the next value of the loop variable.
bool ComputesNextValue(const GraphView& view, int merge, int id) {
  for (const OutputPort& producer : view.fanin(merge)) {
    if (view.node(producer.node).op() != "NextIteration") continue;
    const auto yields_input = [&view](int node) { return YieldsItsInput(view, node); };
    if (view.LookThrough(view.fanin(producer.node)[0], yields_input).node == id) return true;
  }
  return false;
}

}  // namespace

std::vector<LoopAccumulator> LoopAccumulators(const GraphView& view,
                                              const std::vector<GroupState>& groups) {
  std::vector<LoopAccumulator> accumulators;
  std::vector<int> carriers;
  const OpSet merges(view, IsMerge);
  for (int id = 0; id < view.size(); ++id) {
    if (view.op_def(id) == nullptr || !merges.Has(id)) continue;
    const int group = view.GroupOf(OutputPort{id, 0});
    if (groups[group].kind != GroupState::kFollows) continue;
    const InputPort use = OnlyUse(view, id, &carriers);
    if (use.node < 0 || view.op_def(use.node) == nullptr || !Adds(use, view.node(use.node).op()) ||
        !ComputesNextValue(view, id, use.node)) {
      continue;
    }
    const int addition = view.GroupOf(use);
    if (groups[addition].kind == GroupState::kDecided) continue;
    accumulators.push_back({group, {addition}});
    for (int node : carriers) {
      const int carried = view.GroupOf(OutputPort{node, 0});
      if (carried != kNoGroup) accumulators.back().groups.push_back(carried);
    }
  }
  return accumulators;
}

}  // namespace npu_precision
