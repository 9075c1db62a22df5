// The control inputs of nodes: those they wait for and do not read.
#ifndef NPU_PRECISION_GRAPH_PASSES_GRAPH_CONTROL_INPUTS_H_
#define NPU_PRECISION_GRAPH_PASSES_GRAPH_CONTROL_INPUTS_H_

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

// They are the last of its inputs.
inline bool HasControlInputs(const GraphView& view, int id) {
  const int last = view.node(id).input_size() - 1;
  return last >= 0 && view.node(id).input(last)[0] == '^';
}

// By node id: whether another node waits for it.
inline std::vector<bool> AwaitedNodes(const GraphView& view) {
  std::vector<bool> awaited(view.size(), false);
  for (int id = 0; id < view.size(); ++id) {
    VisitControlInputs(view, id, [&](int, int on) { awaited[on] = true; });
  }
  return awaited;
}

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_GRAPH_CONTROL_INPUTS_H_
