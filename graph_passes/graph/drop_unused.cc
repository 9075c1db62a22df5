#include "graph_passes/graph/drop_unused.h"

#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "graph_passes/graph/input_names.h"
#include "graph_passes/graph/marks.h"

namespace npu_precision {
namespace {

using tensorflow::GraphDef;
using tensorflow::NodeDef;

}  // namespace

void DropUnused(const std::set<std::string>& preserved, GraphDef* graph) {
  std::unordered_map<std::string, int> uses;
  std::unordered_map<std::string, const NodeDef*> droppable;
  for (const NodeDef& node : graph->node()) {
    if (IsInserted(node) && preserved.count(node.name()) == 0) droppable[node.name()] = &node;
    for (const std::string& input : node.input()) ++uses[std::string(ParseInput(input).producer)];
  }
  std::unordered_set<std::string> unused;
  for (const auto& entry : droppable) {
    // If a node is dropped, its producers may have no consumer left.
    std::vector<std::string> candidates = {entry.first};
    while (!candidates.empty()) {
      const auto node = droppable.find(candidates.back());
      candidates.pop_back();
      if (node == droppable.end() || uses[node->first] > 0) continue;
      if (!unused.insert(node->first).second) continue;
      for (const std::string& input : node->second->input()) {
        candidates.emplace_back(ParseInput(input).producer);
        --uses[candidates.back()];
      }
    }
  }
  if (unused.empty()) return;
  GraphDef kept;
  for (NodeDef& node : *graph->mutable_node()) {
    if (unused.count(node.name()) == 0) kept.add_node()->Swap(&node);
  }
  graph->mutable_node()->Swap(kept.mutable_node());
}

}  // namespace npu_precision
