#include "graph_passes/rewrite/rename_stateful.h"

#include "absl/strings/str_cat.h"
#include "graph_passes/graph/marks.h"

namespace npu_precision {

NewNames RenameStateful(const std::set<std::string>& preserved, ChangedGraph* graph) {
  NewNames new_names;
  const GraphView& view = graph->view();
  for (int id = 0; id < view.size(); ++id) {
    if (view.op_def(id) == nullptr || !view.op_def(id)->is_stateful()) continue;
    const tensorflow::NodeDef& node = view.node(id);
    if (!graph->Changes(id) || HasNameMark(node) || preserved.count(node.name()) != 0) continue;
    new_names[node.name()] = graph->Rename(id);
  }
  return new_names;
}

void ReferToNewNames(const NewNames& new_names, tensorflow::GraphDef* graph) {
  if (new_names.empty()) return;
  for (tensorflow::NodeDef& node : *graph->mutable_node()) {
    for (std::string& input : *node.mutable_input()) {
      if (input[0] != '^') continue;
      const auto found = new_names.find(input.substr(1));
      if (found != new_names.end()) input = absl::StrCat("^", found->second);
    }
    ColocateWithRenamed(new_names, &node);
  }
}

}  // namespace npu_precision
