#include "graph_passes/decide/missing_kernels.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph_passes/decide/nodes_by_reason.h"
#include "graph_passes/graph/dtype_names.h"
#include "graph_passes/graph/op_traits.h"
#include "tensorflow/core/lib/core/errors.h"

namespace npu_precision {
namespace {

using tensorflow::DataType;

constexpr size_t kMostNodesNamed = 10;

// The dtypes of node `id` that the target does not support, by type group.
std::vector<DataType> MissingDtypes(const GraphView& view, const NodeClasses& classes, int id) {
  std::vector<DataType> missing;
  if (view.op_def(id) == nullptr || IsNeutralSource(view.node(id).op())) return missing;
  if (classes.nodes[id].custom != nullptr) return missing;  // the user's own choice
  for (int g = 0; g < view.num_groups(id); ++g) {
    const DataType dtype = view.groups(id)[g].dtype;
    if (!TargetAllows(view, classes.nodes[id].info, id, g, dtype)) missing.push_back(dtype);
  }
  return missing;
}

}  // namespace

tensorflow::Status CheckOriginSupported(const GraphView& view, const DecideContext& context,
                                        const NodeClasses& classes) {
  std::vector<std::string> named;
  size_t count = 0;
  for (int id = 0; id < view.size(); ++id) {
    const std::vector<DataType> missing = MissingDtypes(view, classes, id);
    if (missing.empty() || ++count > kMostNodesNamed) continue;
    named.push_back(absl::StrCat(view.node(id).name(), " (", view.node(id).op(), ", ",
                                 DtypeName(missing.front()), ")"));
  }
  if (count == 0) return tensorflow::Status();
  return tensorflow::errors::InvalidArgument(
      context.mode.name, ": the target does not support the dtype of ", count,
      count == 1 ? " node: " : " nodes: ", absl::StrJoin(named, ", "),
      count > named.size() ? absl::StrCat(" and ", count - named.size(), " more") : "",
      ". Use a mode that may lower them, such as allow_fp32_to_fp16, or another target");
}

void WarnOfMissingKernels(const GraphView& view, const NodeClasses& classes, Decisions* decisions) {
  NodesByReason nodes;
  for (int id = 0; id < view.size(); ++id) {
    Decision& decision = decisions->nodes[id];
    if (decision.verdict != Verdict::kKept) continue;
    const std::vector<DataType> missing = MissingDtypes(view, classes, id);
    decision.lacks_kernel =
        std::find(missing.begin(), missing.end(), tensorflow::DT_FLOAT) != missing.end();
    if (decision.lacks_kernel) nodes.Add(decision.reason, view.node(id).name());
  }
  nodes.Warn("the target has no kernel for the float32 of ", " that the mode keeps in it",
             &decisions->warnings);
}

}  // namespace npu_precision
