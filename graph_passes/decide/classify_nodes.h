// Collects facts about each node by itself: its list, and which of its type groups can change
// dtype.
#ifndef NPU_PRECISION_GRAPH_PASSES_DECIDE_CLASSIFY_NODES_H_
#define NPU_PRECISION_GRAPH_PASSES_DECIDE_CLASSIFY_NODES_H_

#include <vector>

#include "graph_passes/analysis/handles.h"
#include "graph_passes/decide/decide_context.h"
#include "graph_passes/decide/decision.h"
#include "graph_passes/graph/graph_view.h"

namespace npu_precision {

struct NodeClass {
  bool is_float = false;    // some port has a dtype that the mode changes
  bool is_neutral = false;  // has no precision opinion
  // The reason why no list can change the node (fed, never changed, ...) or why none of its groups
  // can change; else kNone.
  Reason fixed = Reason::kNone;
  Listing listing;
  const OpInfo* info = nullptr;          // from the target's ops-info; nullptr if it is not needed
  const CustomDtypes* custom = nullptr;  // the line of customize_dtypes that decides about it
};

struct NodeClasses {
  std::vector<NodeClass> nodes;  // by node id
  std::vector<bool> can_change;  // by the view's group numbers
  std::vector<Handle> handles;
};

// Returns InvalidArgument if node patterns of the mixlist contradict each other.
tensorflow::Status ClassifyNodes(const GraphView& view, const DecideContext& context,
                                 NodeClasses* classes);

// The entry of a node in the target's ops-info.
const OpInfo* InfoOf(const tensorflow::NodeDef& node, const DecideContext& context);

// Whether `info`, if there is one, allows `dtype` on every port that is bound to group `group` of
// node `id`.
bool TargetAllows(const GraphView& view, const OpInfo* info, int id, int group,
                  tensorflow::DataType dtype);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_DECIDE_CLASSIFY_NODES_H_
