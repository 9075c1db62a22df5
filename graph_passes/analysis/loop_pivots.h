// Finds the pivots of TensorFlow 1 loops whose control dependencies may be dropped.
//
// A pivot is an Identity behind the Switch of a loop variable. Nodes of the body have control
// dependencies on it, so that they run only in an iteration. Nodes without data inputs need that
// dependency; many others have it too. It may be dropped if every node still runs after the same
// effects.
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

  // The LoopCond that controls the Switch `id`; kNone for any other node.
  int LoopOf(int id) const;
  // The LoopCond that depends on the variable of the Merge `merge`, else kNone.
  int DecidedBy(int merge) const { return decided_[merge]; }
  // Whether the node is a pivot that orders no effect: a control dependency on it only ensures that
  // the condition of its loop was true.
  bool IsPivot(int id) const;

 private:
  void FindDecided(int loop_cond);
  void PropagateEffects();

  const GraphView& view_;
  const OpSet switches_, identities_, loop_conds_, begins_anew_;
  std::vector<int> decided_;  // by node id
  std::vector<bool>
      after_effect_;  // by node id: depends on an effect, other than through a condition
};

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_ANALYSIS_LOOP_PIVOTS_H_
