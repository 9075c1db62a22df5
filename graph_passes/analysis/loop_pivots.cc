#include "graph_passes/analysis/loop_pivots.h"

#include <string>

#include "graph_passes/analysis/effects.h"
#include "graph_passes/graph/control_inputs.h"

namespace npu_precision {
namespace {

// The op may run before all of its inputs are available, or in another frame than its inputs.
bool BeginsAnew(const std::string& op) {
  return op == "Merge" || op == "RefMerge" || op == "Enter" || op == "RefEnter" || op == "Exit" ||
         op == "RefExit";
}

}  // namespace

constexpr int LoopPivots::kNone;

LoopPivots::LoopPivots(const GraphView& view)
    : view_(view),
      switches_(view, "Switch"),
      identities_(view, "Identity"),
      loop_conds_(view, "LoopCond"),
      begins_anew_(view, BeginsAnew),
      decided_(view.size(), kNone) {
  for (int id = 0; id < view.size(); ++id) {
    if (loop_conds_.Has(id)) FindDecided(id);
  }
  PropagateEffects();
}

int LoopPivots::LoopOf(int id) const {
  if (view_.op_def(id) == nullptr || !switches_.Has(id)) return kNone;
  const int condition = view_.fanin(id)[1].node;
  return loop_conds_.Has(condition) ? condition : kNone;
}

bool LoopPivots::IsPivot(int id) const {
  if (view_.op_def(id) == nullptr || !identities_.Has(id) || HasControlInputs(view_, id)) {
    return false;
  }
  const OutputPort from = view_.fanin(id)[0];
  const int loop = LoopOf(from.node);
  if (from.port != 1 || loop == kNone || HasControlInputs(view_, from.node)) return false;
  const int variable = view_.fanin(from.node)[0].node;
  return !after_effect_[id] || (decided_[variable] == loop && !HasControlInputs(view_, variable));
}

// The condition depends on everything that it reads, and so do the consumers of the condition.
// Stops at a Merge, because only one of its inputs arrives.
void LoopPivots::FindDecided(int loop_cond) {
  std::vector<int> readers = {loop_cond};
  for (size_t i = 0; i < readers.size(); ++i) {
    for (const OutputPort& input : view_.fanin(readers[i])) {
      if (decided_[input.node] != kNone) continue;
      decided_[input.node] = loop_cond;
      if (!begins_anew_.Has(input.node)) readers.push_back(input.node);
    }
  }
}

// Propagates from nodes that may have an effect to their consumers, but not through conditions.
void LoopPivots::PropagateEffects() {
  std::vector<std::vector<int>> control_consumers(view_.size());
  for (int id = 0; id < view_.size(); ++id) {
    VisitControlInputs(view_, id, [&](int, int from) { control_consumers[from].push_back(id); });
  }
  after_effect_.assign(view_.size(), false);
  std::vector<int> after;
  const auto mark = [&](int id) {
    if (after_effect_[id]) return;
    after_effect_[id] = true;
    after.push_back(id);
  };
  for (int id = 0; id < view_.size(); ++id) {
    if (MayHaveEffect(view_, id)) mark(id);
  }
  for (size_t i = 0; i < after.size(); ++i) {
    if (loop_conds_.Has(after[i])) continue;
    for (const InputPort& use : view_.fanout(after[i])) mark(use.node);
    for (int id : control_consumers[after[i]]) mark(id);
  }
}

}  // namespace npu_precision
