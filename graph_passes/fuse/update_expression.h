// Writes the value that an update assigns as steps of its program, from the elementwise ops that
// compute it.
//
// Taken into the program: elementwise ops on tensors of one shape and scalars, if only the update
// reads them. A Cast to float32 is never read: the program reads the low tensor before it. What
// else yields a value is an input of the update op.
#ifndef NPU_PRECISION_GRAPH_PASSES_FUSE_UPDATE_EXPRESSION_H_
#define NPU_PRECISION_GRAPH_PASSES_FUSE_UPDATE_EXPRESSION_H_

#include <functional>
#include <map>
#include <set>
#include <vector>

#include "graph_passes/fuse/fusion_site.h"
#include "graph_passes/fuse/update_builder.h"
#include "graph_passes/rewrite/pass_state.h"

namespace npu_precision {

class UpdateExpressions {
 public:
  // Both must outlive this object.
  UpdateExpressions(const PassState& state, const FusionSite& site);

  // The ops behind `values` that an update may take in, whoever else reads them.
  std::set<int> Behind(const std::vector<OutputPort>& values) const;
  // Those of them that only each other and `members`, the nodes of the update, read.
  std::set<int> Taken(const std::set<int>& members, const std::vector<OutputPort>& values) const;
  // Whether nothing but `inside` reads what the node yields; others may wait for it.
  bool IsReadOnlyBy(int id, const std::function<bool(int)>& inside) const;
  // Whether nothing but `inside` reads the node or waits for it, and the caller does not see it.
  bool OnlyServes(int id, const std::function<bool(int)>& inside) const;

  // Whether one of `needed` depends on one of `members`, other than through another member. What
  // depends on a node depends on all that were made one with it.
  using MadeOne = std::map<int, std::vector<int>>;
  bool Reaches(const std::set<int>& members, const std::set<int>& needed,
               const MadeOne& made_one) const;

  // The shape; also of a tensor that Casts of ours yield.
  tensorflow::PartialTensorShape Shape(const OutputPort& tensor) const;

  // Yields the step of a read variable whose value the program has; or -1.
  using StepOfRead = std::function<int(int read)>;
  // Appends the steps that yield `value` and returns the last.
  int Write(const OutputPort& value, const std::set<int>& taken, const StepOfRead& step_of_read,
            std::map<int, int>* steps, UpdateBuilder* builder) const;

 private:
  // A Cast from a low type to float32.
  bool IsFromLow(int id) const;
  bool MayTake(int id) const;

  const PassState& state_;
  const FusionSite& site_;
  const GraphView& view_;
  std::vector<std::vector<int>> waiting_;  // by node id: the nodes with a control input from it
};

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_FUSE_UPDATE_EXPRESSION_H_
