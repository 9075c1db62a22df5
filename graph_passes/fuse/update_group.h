// Makes one update of a group of updates that are written out: what it reads, computes and stores,
// and which nodes it stands for.
#ifndef NPU_PRECISION_GRAPH_PASSES_FUSE_UPDATE_GROUP_H_
#define NPU_PRECISION_GRAPH_PASSES_FUSE_UPDATE_GROUP_H_

#include <map>
#include <set>
#include <string>
#include <vector>

#include "graph_passes/fuse/update_builder.h"
#include "graph_passes/fuse/update_expression.h"
#include "graph_passes/fuse/written_updates.h"

namespace npu_precision {

// What an update op of `members` waits for, such as "^x": it does what they and `gone` did.
std::set<std::string> ControlsOf(const GraphView& view, const std::set<int>& members,
                                 const std::set<int>& gone);

class UpdateGroup {
 public:
  // `group`: the numbers of its updates, in their order. The others must outlive this object.
  UpdateGroup(const GraphView& view, const UpdateExpressions& expressions,
              const std::vector<WrittenUpdate>& updates, const std::vector<int>& group);

  // Returns false if one op cannot do it all, or gains nothing: there is nothing to compute and no
  // copy to spare; a variable may not exist yet, because nothing reads it before; or the op would
  // need what something else makes of its result. `made_one`: the nodes of the groups that were
  // fused before.
  bool Fuse(const UpdateExpressions::MadeOne& made_one);

  // After Fuse():
  const UpdateBuilder& builder() const { return builder_; }
  const std::set<int>& gone() const { return gone_; }  // nothing needs these nodes any more
  // Others wait for these reads, and none needs their values: each would copy a variable of which
  // an op writes single rows.
  const std::set<int>& unread() const { return unread_; }
  const std::set<std::string>& controls() const { return controls_; }

 private:
  void FindReads();
  bool HasElements(int read) const;
  bool SparesCopies() const;
  bool WriteProgram();
  void FindGone();
  void FindControls();
  bool NeedsItself(const UpdateExpressions::MadeOne& made_one) const;
  bool Exists(const WrittenUpdate& update) const;
  bool IsRelative(const WrittenUpdate& update) const;

  const GraphView& view_;
  const UpdateExpressions& expressions_;
  const std::vector<WrittenUpdate>& updates_;
  const std::vector<int> group_;
  UpdateBuilder builder_;
  std::set<int> members_, taken_, gone_, unread_;
  std::map<int, int>
      reads_;  // by node: the update in the group whose result it reads, or kNoUpdate
  std::map<int, int> stored_;  // by update: the step that it stores
  std::set<std::string> controls_;
};

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_FUSE_UPDATE_GROUP_H_
