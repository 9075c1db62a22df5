#include "graph_passes/rewrite/fold_constants.h"

#include <cstring>
#include <vector>

#include "graph_passes/decide/reasons.h"
#include "graph_passes/graph/float_values.h"
#include "graph_passes/graph/graph_view.h"
#include "graph_passes/graph/low_types.h"
#include "graph_passes/graph/marks.h"
#include "graph_passes/rewrite/constants.h"
#include "tensorflow/core/framework/attr_value.pb.h"
#include "tensorflow/core/framework/tensor.pb.h"
#include "tensorflow/core/framework/tensor_util.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/lib/core/errors.h"

namespace npu_precision {
namespace {

using tensorflow::DataType;
using tensorflow::GraphDef;
using tensorflow::NodeDef;
using tensorflow::Status;
using tensorflow::TensorProto;

template <typename To>
void Round(const FloatValues& from, char* to) {
  for (int64_t i = 0; i < from.size(); ++i, to += sizeof(To)) {
    const To rounded = static_cast<To>(from[i]);
    std::memcpy(to, &rounded, sizeof(rounded));
  }
}

// Returns true, and fills `to`, for float32 to either low type.
bool RoundTo(DataType low, const TensorProto& from, TensorProto* to) {
  if (!IsLowType(low)) return false;
  FloatValues values;
  if (!values.Read(from)) return false;
  to->set_dtype(low);
  *to->mutable_tensor_shape() = from.tensor_shape();
  std::string* content = to->mutable_tensor_content();
  content->resize(values.size() * tensorflow::DataTypeSize(low));
  if (low == tensorflow::DT_HALF) {
    Round<Eigen::half>(values, &(*content)[0]);
  } else {
    Round<tensorflow::bfloat16>(values, &(*content)[0]);
  }
  // A value that is repeated a million times may be stored once, and must not grow.
  tensorflow::tensor::CompressTensorProtoInPlace(to);
  return true;
}

// Replaces the Cast by a constant, if it follows one. Returns whether it did.
bool Fold(const GraphView& view, int cast, Constants* constants, GraphDef* graph) {
  if (constants->IsFixed(cast)) return false;
  const std::vector<int> path = constants->PathBack(view.fanin(cast)[0]);
  const TensorProto* value = path.empty() ? nullptr : constants->Value(path);
  if (value == nullptr) return false;
  // A line of customize_dtypes names an Identity on the path. A later run must still find it.
  DecisionMark mark;
  for (int id : path) {
    if (!ReadDecisionMark(view.node(id), &mark)) continue;
    if (mark.reason == ReasonName(Reason::kCustomized)) return false;
  }
  const DataType low = view.outputs(cast)[0].dtype;
  NodeDef folded;
  if (!RoundTo(low, *value, (*folded.mutable_attr())["value"].mutable_tensor())) return false;
  const NodeDef& constant = view.node(path.back());
  folded.set_name(view.node(cast).name());
  folded.set_op("Const");
  folded.set_device(constant.device());
  for (const std::string& input : constant.input()) folded.add_input(input);
  (*folded.mutable_attr())["dtype"].set_type(low);
  graph->mutable_node(cast)->Swap(&folded);
  constants->Release(path);
  return true;
}

}  // namespace

Status FoldConstants(PassState* state, bool* changed) {
  GraphDef* graph = state->Editable();
  *changed = false;
  // After a round, more nodes may have no control dependencies and be looked through.
  GraphView next;
  for (const GraphView* view = &state->view();; view = &next) {
    Constants constants(state->context, *view, &state->values);
    for (int id = 0; id < view->size(); ++id) {
      if (view->IsTransparentCast(id)) *changed |= Fold(*view, id, &constants, graph);
    }
    constants.DropRemoved(graph);
    if (!constants.DropsControlInputs()) return Status();
    TF_RETURN_IF_ERROR(GraphView::Build(*graph, &next));
  }
}

}  // namespace npu_precision
