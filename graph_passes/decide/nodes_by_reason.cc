#include "graph_passes/decide/nodes_by_reason.h"

#include "absl/strings/str_cat.h"
#include "graph_passes/decide/reasons.h"
#include "graph_passes/graph/quoted.h"

namespace npu_precision {

void NodesByReason::Warn(const std::string& before, const std::string& after,
                         std::vector<std::string>* warnings) const {
  for (const auto& entry : names_) {
    const size_t count = entry.second.size();
    warnings->push_back(absl::StrCat(before, count, count == 1 ? " node" : " nodes", after, " (",
                                     ReasonName(entry.first), "), ", count == 1 ? "" : "such as ",
                                     Quoted(*entry.second.begin())));
  }
}

}  // namespace npu_precision
