// Divides the nodes of a network in two at the least cost.
#ifndef NPU_PRECISION_GRAPH_PASSES_GRAPH_MIN_CUT_H_
#define NPU_PRECISION_GRAPH_PASSES_GRAPH_MIN_CUT_H_

#include <vector>

namespace npu_precision {

// Each node is on the side of the source or on that of the sink. A division costs the sum of the
// edges that lead from a node on the source's side to one on the sink's. Uses Dinic's algorithm.
class MinCut {
 public:
  static constexpr int kSource = 0, kSink = 1;
  // The cost of an edge that no division may cut.
  static constexpr double kNever = 1e18;

  MinCut() : edges_of_(2) {}

  // Returns the number of a new node.
  int AddNode();
  void AddEdge(int from, int to, double cost);

  // By node: whether it is on the side of the source, in the cheapest division. Of several, the one
  // with the fewest nodes on that side. Call it once.
  std::vector<bool> SideOfSource();

 private:
  struct Edge {
    int to;
    double left;  // what may still flow
  };

  bool FindLevels();
  double Push(int node, double flow);

  std::vector<Edge> edges_;  // the reverse of edge e is e ^ 1
  std::vector<std::vector<int>> edges_of_;
  std::vector<int> level_;
  std::vector<size_t> next_;  // by node: the first edge that may not be exhausted
};

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_GRAPH_MIN_CUT_H_
