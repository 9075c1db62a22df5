#include "graph_passes/graph/min_cut.h"

#include <algorithm>

namespace npu_precision {
namespace {

constexpr int kUnreached = -1;
// What is less is a rounding error of sums.
constexpr double kLeast = 1e-6;

}  // namespace

int MinCut::AddNode() {
  edges_of_.emplace_back();
  return static_cast<int>(edges_of_.size()) - 1;
}

void MinCut::AddEdge(int from, int to, double cost) {
  edges_of_[from].push_back(static_cast<int>(edges_.size()));
  edges_.push_back({to, cost});
  edges_of_[to].push_back(static_cast<int>(edges_.size()));
  edges_.push_back({from, 0});
}

std::vector<bool> MinCut::SideOfSource() {
  while (FindLevels()) {
    next_.assign(edges_of_.size(), 0);
    while (Push(kSource, kNever) > 0) {
    }
  }
  std::vector<bool> side(edges_of_.size());
  for (size_t node = 0; node < side.size(); ++node) side[node] = level_[node] != kUnreached;
  return side;
}

// The distances from the source over edges with some flow left. Returns whether the sink is
// reached.
bool MinCut::FindLevels() {
  level_.assign(edges_of_.size(), kUnreached);
  level_[kSource] = 0;
  std::vector<int> open = {kSource};
  for (size_t i = 0; i < open.size(); ++i) {
    for (int e : edges_of_[open[i]]) {
      const Edge& edge = edges_[e];
      if (edge.left < kLeast || level_[edge.to] != kUnreached) continue;
      level_[edge.to] = level_[open[i]] + 1;
      open.push_back(edge.to);
    }
  }
  return level_[kSink] != kUnreached;
}

// Lets up to `flow` go from the node to the sink, along one path. Returns how much did. The path is
// a loop's, not a recursion's: it may be as long as the graph.
double MinCut::Push(int node, double flow) {
  std::vector<int> path;
  while (node != kSink) {
    bool advanced = false;
    for (size_t& i = next_[node]; i < edges_of_[node].size(); ++i) {
      const int e = edges_of_[node][i];
      if (edges_[e].left < kLeast || level_[edges_[e].to] != level_[node] + 1) continue;
      path.push_back(e);
      node = edges_[e].to;
      advanced = true;
      break;
    }
    if (advanced) continue;
    if (path.empty()) return 0;
    node = edges_[path.back() ^ 1].to;
    path.pop_back();
    ++next_[node];
  }
  for (int e : path) flow = std::min(flow, edges_[e].left);
  for (int e : path) {
    edges_[e].left -= flow;
    edges_[e ^ 1].left += flow;
  }
  return flow;
}

}  // namespace npu_precision
