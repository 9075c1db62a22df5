#include "graph_passes/graph/graph_text.h"

#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tensorflow/core/framework/attr_value.pb.h"
#include "tensorflow/core/framework/attr_value_util.h"

namespace npu_precision {

std::string GraphText(const tensorflow::GraphDef& graph) {
  std::string text;
  for (const tensorflow::NodeDef& node : graph.node()) {
    absl::StrAppend(&text, node.name(), " = ", node.op(), "(", absl::StrJoin(node.input(), ", "),
                    ")");
    std::map<std::string, const tensorflow::AttrValue*> sorted;
    for (const auto& attr : node.attr()) sorted[attr.first] = &attr.second;
    for (const auto& attr : sorted) {
      absl::StrAppend(&text, " ", attr.first, "=",
                      std::string(tensorflow::SummarizeAttrValue(*attr.second)));
    }
    if (!node.device().empty()) absl::StrAppend(&text, " on ", node.device());
    absl::StrAppend(&text, "\n");
  }
  return text;
}

}  // namespace npu_precision
