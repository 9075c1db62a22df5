// Control dependencies: a node with a control input runs after the node that the input names, and
// reads no value from it.
#ifndef NPU_PRECISION_GRAPH_PASSES_GRAPH_CONTROL_INPUTS_H_
#define NPU_PRECISION_GRAPH_PASSES_GRAPH_CONTROL_INPUTS_H_

#include <set>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "graph_passes/graph/graph_view.h"

namespace npu_precision {

// Calls visit(k, id) for each input `k` of a node that is a control input, from node `id`.
template <typename Visit>
void VisitControlInputs(const GraphView& view, int id, const Visit& visit) {
  const tensorflow::NodeDef& node = view.node(id);
  for (int k = 0; k < node.input_size(); ++k) {
    if (node.input(k)[0] == '^') {
      visit(k, view.IndexOf(absl::string_view(node.input(k)).substr(1)));
    }
  }
}

// Control inputs are the last inputs of a node.
inline bool HasControlInputs(const GraphView& view, int id) {
  const int last = view.node(id).input_size() - 1;
  return last >= 0 && view.node(id).input(last)[0] == '^';
}

// Adds the control inputs of `node`, such as "^update", to `inputs`.
inline void AddControlInputs(const tensorflow::NodeDef& node, std::set<std::string>* inputs) {
  for (const std::string& input : node.input()) {
    if (input[0] == '^') inputs->insert(input);
  }
}

// By node id: whether another node has a control dependency on it.
inline std::vector<bool> ControlProducers(const GraphView& view) {
  std::vector<bool> producers(view.size(), false);
  for (int id = 0; id < view.size(); ++id) {
    VisitControlInputs(view, id, [&](int, int producer) { producers[producer] = true; });
  }
  return producers;
}

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_GRAPH_CONTROL_INPUTS_H_
