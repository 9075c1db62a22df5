#include "graph_passes/decide/mixed_by_model.h"

#include "absl/strings/str_cat.h"
#include "graph_passes/graph/dtype_names.h"
#include "graph_passes/graph/low_types.h"
#include "graph_passes/graph/marks.h"
#include "graph_passes/graph/op_traits.h"

namespace npu_precision {
namespace {

// The low type that a product had before any run of this optimizer, or DT_INVALID.
tensorflow::DataType LowTypeOfModel(const GraphView& view, int id) {
  DecisionMark mark;
  if (ReadDecisionMark(view.node(id), &mark)) return tensorflow::DT_INVALID;
  for (const TypeGroup& group : view.groups(id)) {
    if (IsLowType(group.dtype)) return group.dtype;
  }
  return tensorflow::DT_INVALID;
}

}  // namespace

void WarnOfMixedByModel(const GraphView& view, Decisions* decisions) {
  tensorflow::DataType of_model = tensorflow::DT_INVALID;
  bool lowers = false;
  for (int id = 0; id < view.size(); ++id) {
    if (view.op_def(id) == nullptr || !IsMatrixOrConvolution(view.node(id).op())) continue;
    const tensorflow::DataType low = LowTypeOfModel(view, id);
    if (low != tensorflow::DT_INVALID) of_model = low;
    lowers = lowers || decisions->nodes[id].verdict == Verdict::kLowered;
  }
  if (of_model == tensorflow::DT_INVALID || !lowers) return;
  // Without names and counts, so that a process logs it once.
  decisions->warnings.push_back(absl::StrCat(
      "the model computes in ", DtypeName(of_model),
      " itself, as with a mixed precision policy of Keras, and the mode lowers the layers that it "
      "keeps in float32: use one of the two"));
}

}  // namespace npu_precision
