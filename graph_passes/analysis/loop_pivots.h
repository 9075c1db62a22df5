// What only says that a TensorFlow 1 loop goes on.
//
// A pivot is an Identity behind a Switch of a loop variable: nodes of the body that read no
// variable wait for it, and so do many that do. To drop such a wait, or to hand a variable on
// without it, must not change what runs after which effect.
#ifndef NPU_PRECISION_GRAPH_PASSES_ANALYSIS_LOOP_PIVOTS_H_
#define NPU_PRECISION_GRAPH_PASSES_ANALYSIS_LOOP_PIVOTS_H_

#include <vector>

#include "graph_passes/graph/graph_view.h"
#include "graph_passes/graph/op_set.h"

namespace npu_precision {

class LoopPivots {
 public:
  static constexpr int kNone = -1;

  explicit LoopPivots(const GraphView& view);  // must outlive this object

  // Of a Switch that a loop goes on or ends by, its LoopCond, else kNone.
  int LoopOf(int id) const;
  // Of a Merge, the LoopCond that its variable has a say in, else kNone.
  int DecidedBy(int merge) const { return decided_[merge]; }
  // Whether to wait for the node is no more than to wait for the condition of its loop, but for
  // what has no effect.
  bool IsPivot(int id) const;

 private:
  void FindDecided(int loop_cond);
  void FollowEffects();

  const GraphView& view_;
  const OpSet switches_, identities_, loop_conds_, begins_anew_;
  std::vector<int> decided_;        // by node id
  std::vector<bool> after_effect_;  // by node id: other than by a condition
};

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_ANALYSIS_LOOP_PIVOTS_H_
