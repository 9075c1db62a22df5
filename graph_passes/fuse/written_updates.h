// Finds updates that are written out as elementwise ops, and groups those that need each other's
// results: in Adam, the variable's update reads what those of its two slots assigned.
#ifndef NPU_PRECISION_GRAPH_PASSES_FUSE_WRITTEN_UPDATES_H_
#define NPU_PRECISION_GRAPH_PASSES_FUSE_WRITTEN_UPDATES_H_

#include <string>
#include <vector>

#include "graph_passes/fuse/fusion_site.h"
#include "graph_passes/fuse/update_expression.h"
#include "graph_passes/graph/graph_view.h"

namespace npu_precision {

constexpr int kNoUpdate = -1;

struct WrittenUpdate {
  int node;              // of an op that assigns
  bool is_whole = true;  // else it writes single rows, and stays as it is
  OutputPort handle;
  OutputPort value;
  int previous = kNoUpdate;  // the number of the update that writes the same variable before
  // The reads of variables behind `value`, each with the number of the update whose result it
  // reads: kNoUpdate if it is before all. Others are left out.
  struct Read {
    int node, after;
  };
  std::vector<Read> reads;
  // The numbers of the updates that must come before: `previous`, and those in `reads`.
  std::vector<int> after;
};

// AssignVariableOp, AssignAddVariableOp or AssignSubVariableOp.
bool Assigns(const std::string& op);

// The updates of variables of one rank or more, each after those that it needs. Only updates write
// their handles, one after the other.
std::vector<WrittenUpdate> FindWrittenUpdates(const GraphView& view, const FusionSite& site,
                                              const UpdateExpressions& expressions);

// The numbers of the updates of each group, in their order. What writes single rows is a group of
// its own.
std::vector<std::vector<int>> GroupsOf(const std::vector<WrittenUpdate>& updates);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_FUSE_WRITTEN_UPDATES_H_
