// Finds the strongly connected components of a graph.
#ifndef NPU_PRECISION_GRAPH_PASSES_ANALYSIS_CYCLES_H_
#define NPU_PRECISION_GRAPH_PASSES_ANALYSIS_CYCLES_H_

#include <algorithm>
#include <vector>

namespace npu_precision {

// Returns a number for each node. Two nodes have the same number if and only if they are on a
// common cycle. `successors(id, visit)` calls visit(next) for each edge from a node. This is
// Tarjan's algorithm with an explicit stack, because a graph may have a path of a million nodes.
template <typename Successors>
std::vector<int> StronglyConnected(int size, const Successors& successors) {
  constexpr int kNew = -1;
  struct Frame {
    int node;
    std::vector<int> next;
  };
  std::vector<int> index(size, kNew), low(size, 0), component(size, kNew), open;
  std::vector<Frame> stack;
  int visited = 0, components = 0;
  const auto enter = [&](int id) {
    index[id] = low[id] = visited++;
    open.push_back(id);
    stack.push_back({id, {}});
    successors(id, [&](int next) { stack.back().next.push_back(next); });
  };
  for (int start = 0; start < size; ++start) {
    if (index[start] != kNew) continue;
    enter(start);
    while (!stack.empty()) {
      const int id = stack.back().node;
      if (!stack.back().next.empty()) {
        const int next = stack.back().next.back();
        stack.back().next.pop_back();
        if (index[next] == kNew) {
          enter(next);
        } else if (component[next] == kNew) {
          low[id] = std::min(low[id], index[next]);
        }
        continue;
      }
      stack.pop_back();
      if (!stack.empty()) low[stack.back().node] = std::min(low[stack.back().node], low[id]);
      if (low[id] != index[id]) continue;
      for (int member = kNew; member != id;) {
        member = open.back();
        open.pop_back();
        component[member] = components;
      }
      ++components;
    }
  }
  return component;
}

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_ANALYSIS_CYCLES_H_
