// Finds the reason of each node that its list alone does not decide, and the node that caused it,
// for the ledger.
#ifndef NPU_PRECISION_GRAPH_PASSES_DECIDE_EXPLAIN_GRAY_H_
#define NPU_PRECISION_GRAPH_PASSES_DECIDE_EXPLAIN_GRAY_H_

#include <unordered_map>
#include <vector>

#include "graph_passes/decide/classify_nodes.h"
#include "graph_passes/decide/decide_context.h"
#include "graph_passes/decide/decision.h"
#include "graph_passes/decide/resolve_gray.h"
#include "graph_passes/graph/graph_view.h"

namespace npu_precision {

class GrayExplainer {
 public:
  // `groups` are the states after gray was resolved, `before` the decisions before that. All must
  // outlive this object, except `before`.
  GrayExplainer(const GraphView& view, const DecideContext& context, const NodeClasses& classes,
                const std::vector<int>& leader, const std::vector<GroupState>& groups,
                const SmallOperands& small, const Decisions& before);

  // Sets reason and cause of node `id`; `changes` is whether the node changes.
  void Explain(int id, bool changes, Decision* decision) const;
  // Explains a gray magnifier. If a producer has float32 for another reason than this magnifier,
  // that producer is the reason and cause, so that the explanation leads back to the origin.
  void ExplainMagnifier(int id, const Decisions& decisions, Decision* decision) const;

 private:
  bool ByPredecessors(int id, bool changes, Decision* decision) const;
  void NameSmallOperand(int id, Decision* decision) const;
  void ByItsClass(int id, Decision* decision) const;
  void FindDecidersOfHandles(const Decisions& before);
  bool Decides(int id, int group, Reason own) const;

  const GraphView& view_;
  const DecideContext& context_;
  const NodeClasses& classes_;
  const std::vector<int>& leader_;
  const std::vector<GroupState>& groups_;
  const SmallOperands& small_;
  std::unordered_map<int, int> decider_of_handle_;  // node id, by the leader of the handle's class
};

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_DECIDE_EXPLAIN_GRAY_H_
