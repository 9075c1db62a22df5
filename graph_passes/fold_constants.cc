#include "graph_passes/fold_constants.h"

#include <vector>

#include "graph_passes/constants.h"
#include "graph_passes/graph_view.h"
#include "graph_passes/marks.h"
#include "tensorflow/core/framework/attr_value.pb.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/tensor.pb.h"
#include "tensorflow/core/framework/tensor_util.h"
#include "tensorflow/core/lib/core/errors.h"

namespace npu_precision {
namespace {

using tensorflow::GraphDef;
using tensorflow::NodeDef;
using tensorflow::Status;
using tensorflow::Tensor;

template <typename From, typename To>
void Convert(const Tensor& from, Tensor* to) {
  const auto source = from.flat<From>();
  auto target = to->flat<To>();
  for (int64_t i = 0; i < source.size(); ++i) target(i) = static_cast<To>(source(i));
}

// True and `to` filled for float32 to either low type.
bool ConvertConstant(const Tensor& from, Tensor* to) {
  if (from.dtype() != tensorflow::DT_FLOAT) return false;
  if (to->dtype() == tensorflow::DT_HALF) {
    Convert<float, Eigen::half>(from, to);
  } else if (to->dtype() == tensorflow::DT_BFLOAT16) {
    Convert<float, tensorflow::bfloat16>(from, to);
  } else {
    return false;
  }
  return true;
}

// Where the Cast follows a constant whose place it can take.
void Fold(const GraphView& view, int cast, Constants* constants, GraphDef* graph) {
  if (constants->IsFixed(cast) || constants->HasControlInputs(cast)) return;
  const std::vector<int> way = constants->WayBack(view.fanin(cast)[0]);
  Tensor from;
  if (way.empty() || !constants->Value(way, &from)) return;
  Tensor to(view.outputs(cast)[0].dtype, from.shape());
  if (!ConvertConstant(from, &to)) return;
  const NodeDef& constant = view.node(way.back());
  NodeDef folded;
  folded.set_name(view.node(cast).name());
  folded.set_op("Const");
  folded.set_device(constant.device());
  for (const std::string& input : constant.input()) folded.add_input(input);
  (*folded.mutable_attr())["dtype"].set_type(to.dtype());
  tensorflow::TensorProto* content = (*folded.mutable_attr())["value"].mutable_tensor();
  to.AsProtoTensorContent(content);
  // A value repeated a million times was perhaps written once, and must not grow.
  tensorflow::tensor::CompressTensorProtoInPlace(content);
  graph->mutable_node(cast)->Swap(&folded);
  constants->Release(way);
}

}  // namespace

Status FoldConstants(const DecideContext& context, GraphDef* graph) {
  // A node that no longer waits for anything may be looked through.
  for (bool again = true; again;) {
    GraphView view;
    TF_RETURN_IF_ERROR(GraphView::Build(*graph, &view));
    Constants constants(context, view);
    for (int id = 0; id < view.size(); ++id) {
      if (IsTransparentCast(view.node(id))) Fold(view, id, &constants, graph);
    }
    again = constants.EndsWaits();
    constants.DropGone(graph);
  }
  return Status();
}

}  // namespace npu_precision
