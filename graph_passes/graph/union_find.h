// Disjoint sets of the numbers 0 to size - 1; the smallest member leads its set.
#ifndef NPU_PRECISION_GRAPH_PASSES_GRAPH_UNION_FIND_H_
#define NPU_PRECISION_GRAPH_PASSES_GRAPH_UNION_FIND_H_

#include <algorithm>
#include <vector>

namespace npu_precision {

class UnionFind {
 public:
  explicit UnionFind(int size = 0) : leader_(size) {
    for (int i = 0; i < size; ++i) leader_[i] = i;
  }

  void Join(int a, int b) {
    a = Find(a);
    b = Find(b);
    leader_[std::max(a, b)] = std::min(a, b);
  }

  int Find(int i) {
    while (leader_[i] != i) i = leader_[i] = leader_[leader_[i]];
    return i;
  }

  // The leader of each number.
  std::vector<int> Leaders() {
    for (int i = 0; i < static_cast<int>(leader_.size()); ++i) leader_[i] = Find(i);
    return leader_;
  }

 private:
  std::vector<int> leader_;
};

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_GRAPH_UNION_FIND_H_
