// What each node is for: most compute the model's values, others only serve the run around them.
//
// People ask how much of their model is lowered. The arithmetic of an optimizer, the reads of
// variables and the results of functions are many nodes, and no answer to that question.
#ifndef NPU_PRECISION_GRAPH_PASSES_ANALYSIS_NODE_ROLES_H_
#define NPU_PRECISION_GRAPH_PASSES_ANALYSIS_NODE_ROLES_H_

#include <set>
#include <string>
#include <vector>

#include "graph_passes/graph/graph_view.h"

namespace npu_precision {

enum class NodeRole : unsigned char {
  kComputes,
  // Yields values and reads none of them: a constant, a variable, its read, an argument, random
  // numbers.
  kSource,
  // Writes a variable, or computes element by element what only such nodes read: the step of an
  // optimizer, moving averages, the sums of metrics. The norm of all gradients belongs to it.
  kUpdatesVariable,
  // Moves values and computes none: a call of a function, its result, a transfer, a summary, a
  // save; or only reads a shape.
  kBookkeeping,
};

const char* NodeRoleName(NodeRole role);
// The role with that name, or kComputes.
NodeRole NodeRoleFromName(const std::string& name);

// Returns the role of each node, by its id. What a node of `fetched` yields is read.
std::vector<NodeRole> NodeRoles(const GraphView& view, const std::set<std::string>& fetched);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_ANALYSIS_NODE_ROLES_H_
