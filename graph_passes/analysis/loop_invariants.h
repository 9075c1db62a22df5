// Finds tensors that are the same in every iteration of a TensorFlow 1 loop.
//
// A constant Enter forwards a tensor of the enclosing frame to every iteration. A loop variable
// that the body does not change has the same effect. A lowered functional While carries its
// captures in such variables:
//
//   Enter -> Merge -> Switch -> Identity -> NextIteration -> the same Merge
#ifndef NPU_PRECISION_GRAPH_PASSES_ANALYSIS_LOOP_INVARIANTS_H_
#define NPU_PRECISION_GRAPH_PASSES_ANALYSIS_LOOP_INVARIANTS_H_

#include <set>
#include <string>
#include <vector>

#include "graph_passes/graph/graph_view.h"

namespace npu_precision {

class LoopInvariants {
 public:
  // Both must outlive this object. Nodes in `fed` yield what the caller feeds.
  LoopInvariants(const GraphView& view, const std::set<std::string>& fed);

  // The Enter whose input equals the tensor in every iteration; -1 if the tensor varies, or is not
  // in a loop. A read of a reference variable varies if a node writes the variable.
  int EnterOf(const OutputPort& tensor) const {
    return enters_.empty() ? -1 : enters_[tensor.node];
  }

 private:
  std::vector<int> Origins() const;
  int EnterOfOrigin(const std::vector<int>& origins, int origin) const;
  void DropVarying(const std::vector<int>& origins);

  const GraphView& view_;
  const std::set<std::string>& fed_;
  std::vector<int> enters_;  // by node id, -1 if there is none; empty if no node has one
};

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_ANALYSIS_LOOP_INVARIANTS_H_
