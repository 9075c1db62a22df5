// Collects the nodes that a warning is about, by the reason of the decision about each.
#ifndef NPU_PRECISION_GRAPH_PASSES_DECIDE_NODES_BY_REASON_H_
#define NPU_PRECISION_GRAPH_PASSES_DECIDE_NODES_BY_REASON_H_

#include <map>
#include <set>
#include <string>
#include <vector>

#include "graph_passes/decide/decision.h"

namespace npu_precision {

class NodesByReason {
 public:
  void Add(Reason reason, const std::string& name) { names_[reason].insert(name); }

  // Adds a sentence for each reason: BEFORE "3 nodes" AFTER "(REASON), such as 'NAME'".
  void Warn(const std::string& before, const std::string& after,
            std::vector<std::string>* warnings) const;

 private:
  std::map<Reason, std::set<std::string>> names_;
};

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_DECIDE_NODES_BY_REASON_H_
