// What each node is, before any node looks at another: its list, and which of its type groups
// could change dtype at all.
#ifndef NPU_PRECISION_GRAPH_PASSES_DECIDE_CLASSIFY_NODES_H_
#define NPU_PRECISION_GRAPH_PASSES_DECIDE_CLASSIFY_NODES_H_

#include <vector>

#include "graph_passes/analysis/handles.h"
#include "graph_passes/decide/decide_context.h"
#include "graph_passes/decide/decision.h"
#include "graph_passes/graph/graph_view.h"

namespace npu_precision {

struct NodeClass {
  bool is_float = false;    // some port has a dtype the mode changes
  bool is_neutral = false;  // has no precision opinion
  // Why no list can change it (fed, never changed, ...), or kNone. For a listed node none of whose
  // groups can change: why not.
  Reason fixed = Reason::kNone;
  Listing listing;
  const OpInfo* info = nullptr;  // the target's, where it has one
};

struct NodeClasses {
  std::vector<NodeClass> nodes;  // by node id
  std::vector<bool> can_change;  // by the view's group numbers
  std::vector<Handle> handles;
};

// A user error where node patterns contradict each other.
tensorflow::Status ClassifyNodes(const GraphView& view, const DecideContext& context,
                                 NodeClasses* classes);

// The target's ops-info of a node, or nullptr.
const OpInfo* InfoOf(const tensorflow::NodeDef& node, const DecideContext& context);

// Whether it allows `dtype` on every port bound to group `group` of node `id`.
bool TargetAllows(const GraphView& view, const OpInfo* info, int id, int group,
                  tensorflow::DataType dtype);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_DECIDE_CLASSIFY_NODES_H_
