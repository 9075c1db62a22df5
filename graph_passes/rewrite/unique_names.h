// Makes names for new nodes that no other node has.
//
// Before: the graph has a node x/npu_cast_0_float16, and a new node wants the same name.
// After: the new node is x/npu_cast_0_float16_1.
#ifndef NPU_PRECISION_GRAPH_PASSES_REWRITE_UNIQUE_NAMES_H_
#define NPU_PRECISION_GRAPH_PASSES_REWRITE_UNIQUE_NAMES_H_

#include <string>
#include <unordered_map>
#include <unordered_set>

#include "graph_passes/graph/graph_view.h"

namespace npu_precision {

class UniqueNames {
 public:
  explicit UniqueNames(const GraphView& view) : view_(view) {}  // must outlive this object

  // Returns `wanted`, with a number appended if a node of the view or an earlier call has that
  // name.
  std::string Take(const std::string& wanted);

 private:
  bool TakeIfFree(const std::string& name);

  const GraphView& view_;
  std::unordered_set<std::string> taken_;
  std::unordered_map<std::string, int> last_suffix_;  // by name that was taken
};

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_REWRITE_UNIQUE_NAMES_H_
