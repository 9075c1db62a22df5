#include "graph_passes/decide/check_origin.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph_passes/decide/classify_nodes.h"
#include "graph_passes/graph/dtype_names.h"
#include "graph_passes/graph/op_traits.h"
#include "tensorflow/core/lib/core/errors.h"

namespace npu_precision {
namespace {

using tensorflow::DataType;

constexpr size_t kMostNodesNamed = 10;

// The first dtype of node `id` that the target does not support, or DT_INVALID.
DataType UnsupportedDtype(const GraphView& view, const DecideContext& context, int id) {
  if (view.op_def(id) == nullptr || IsNeutralSource(view.node(id).op())) {
    return tensorflow::DT_INVALID;
  }
  const OpInfo* info = InfoOf(view.node(id), context);
  for (int g = 0; g < view.num_groups(id); ++g) {
    const DataType dtype = view.groups(id)[g].dtype;
    if (!TargetAllows(view, info, id, g, dtype)) return dtype;
  }
  return tensorflow::DT_INVALID;
}

}  // namespace

tensorflow::Status CheckOriginSupported(const GraphView& view, const DecideContext& context) {
  std::vector<std::string> named;
  size_t count = 0;
  for (int id = 0; id < view.size(); ++id) {
    const DataType dtype = UnsupportedDtype(view, context, id);
    if (dtype == tensorflow::DT_INVALID || ++count > kMostNodesNamed) continue;
    named.push_back(
        absl::StrCat(view.node(id).name(), " (", view.node(id).op(), ", ", DtypeName(dtype), ")"));
  }
  if (count == 0) return tensorflow::Status();
  return tensorflow::errors::InvalidArgument(
      context.mode.name, ": the target does not support the dtype of ", count,
      count == 1 ? " node: " : " nodes: ", absl::StrJoin(named, ", "),
      count > named.size() ? absl::StrCat(" and ", count - named.size(), " more") : "",
      ". Use a mode that may lower them, such as allow_fp32_to_fp16, or another target");
}

}  // namespace npu_precision
