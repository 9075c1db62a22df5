#include "graph_passes/fold_constants.h"

#include <unordered_set>
#include <vector>

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

class Folder {
 public:
  Folder(const DecideContext& context, const GraphView& view, GraphDef* graph)
      : context_(context), view_(view), graph_(*graph), data_uses_(view.size(), 0) {
    for (int id = 0; id < view_.size(); ++id) {
      data_uses_[id] = view_.fanout(id).size();
      for (const std::string& input : view_.node(id).input()) {
        if (input[0] == '^') pinned_.insert(view_.IndexOf(input.substr(1)));
      }
      for (const std::string& name : ColocatedWith(view_.node(id))) {
        pinned_.insert(view_.IndexOf(name));
      }
    }
  }

  void Run() {
    for (int id = 0; id < view_.size(); ++id) {
      if (IsTransparentCast(view_.node(id))) Fold(id);
    }
    GraphDef kept;
    for (int id = 0; id < view_.size(); ++id) {
      if (gone_.count(id) == 0) kept.add_node()->Swap(graph_.mutable_node(id));
    }
    graph_.mutable_node()->Swap(kept.mutable_node());
  }

 private:
  bool IsFixed(int id) const {
    const std::string& name = view_.node(id).name();
    return context_.preserved.count(name) != 0 || context_.fed.count(name) != 0;
  }

  bool HasControlInputs(int id) const {
    return view_.node(id).input_size() != view_.fanin(id).size();
  }

  // Nodes from the Cast's producer back to the Const, or empty.
  std::vector<int> WayToConstant(int cast) const {
    std::vector<int> way;
    int id = view_.fanin(cast)[0].node;
    // The bound ends the walk on a damaged graph whose Identity nodes form a cycle.
    while (static_cast<int>(way.size()) < view_.size() && !IsFixed(id) && !HasControlInputs(id) &&
           view_.node(id).op() == "Identity") {
      way.push_back(id);
      id = view_.fanin(id)[0].node;
    }
    if (IsFixed(id) || view_.node(id).op() != "Const") return {};
    way.push_back(id);
    return way;
  }

  void Fold(int cast) {
    if (IsFixed(cast) || HasControlInputs(cast)) return;
    const std::vector<int> way = WayToConstant(cast);
    if (way.empty()) return;
    const NodeDef& constant = view_.node(way.back());
    const auto value = constant.attr().find("value");
    Tensor from;
    if (value == constant.attr().end() || !from.FromProto(value->second.tensor())) return;
    Tensor to(view_.outputs(cast)[0].dtype, from.shape());
    if (!ConvertConstant(from, &to)) return;
    NodeDef folded;
    folded.set_name(view_.node(cast).name());
    folded.set_op("Const");
    folded.set_device(constant.device());
    for (const std::string& input : constant.input()) folded.add_input(input);
    (*folded.mutable_attr())["dtype"].set_type(to.dtype());
    tensorflow::TensorProto* content = (*folded.mutable_attr())["value"].mutable_tensor();
    to.AsProtoTensorContent(content);
    // A value repeated a million times was perhaps written once, and must not grow.
    tensorflow::tensor::CompressTensorProtoInPlace(content);
    graph_.mutable_node(cast)->Swap(&folded);
    for (int id : way) {
      if (--data_uses_[id] > 0 || pinned_.count(id) != 0) break;
      gone_.insert(id);
    }
  }

  const DecideContext& context_;
  const GraphView& view_;
  GraphDef& graph_;
  std::vector<int> data_uses_;
  std::unordered_set<int> pinned_;  // something waits for them or is placed with them
  std::unordered_set<int> gone_;
};

}  // namespace

Status FoldConstants(const DecideContext& context, GraphDef* graph) {
  GraphView view;
  TF_RETURN_IF_ERROR(GraphView::Build(*graph, &view));
  Folder(context, view, graph).Run();
  return Status();
}

}  // namespace npu_precision
