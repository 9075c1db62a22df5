#include "graph_passes/fuse/low_weights.h"

#include <set>
#include <string>
#include <vector>

#include "graph_passes/analysis/variable_buffers.h"
#include "graph_passes/fuse/flat_nodes.h"
#include "graph_passes/fuse/fusion_site.h"
#include "graph_passes/graph/low_types.h"
#include "graph_passes/graph/op_set.h"
#include "graph_passes/graph/private_ops.h"
#include "tensorflow/core/framework/attr_value.pb.h"

namespace npu_precision {
namespace {

using tensorflow::GraphDef;
using tensorflow::NodeDef;

constexpr char kPass[] = "low_weights";

// What a Cast rounds.
struct Weights {
  OutputPort value;
  OutputPort scale = {-1, 0};

  bool HasScale() const { return scale.node >= 0; }
};

// Ops that write what they read, whoever else reads it.
bool WritesItsInput(const std::string& op) {
  return op == "InplaceUpdate" || op == "InplaceAdd" || op == "InplaceSub";
}

bool Truncates(const NodeDef& cast) {
  const auto truncates = cast.attr().find("Truncate");
  return truncates != cast.attr().end() && truncates->second.b();
}

class Writer {
 public:
  explicit Writer(PassState* state) : state_(state), view_(state->view()), site_(*state) {}

  void Run() {
    GraphDef* graph = state_->Editable();
    std::set<int> gone;
    for (int id : OpSet(view_, "Cast").Ids()) {
      Weights weights;
      if (!MayKeep(id) || !FindWeights(view_.fanin(id)[0], &weights)) continue;
      if (weights.HasScale()) gone.insert(view_.fanin(id)[0].node);
      Write(weights, graph->mutable_node(id));
    }
    if (gone.empty()) return;
    GraphDef kept;
    for (int id = 0; id < graph->node_size(); ++id) {
      if (gone.count(id) == 0) kept.add_node()->Swap(graph->mutable_node(id));
    }
    graph->mutable_node()->Swap(kept.mutable_node());
  }

 private:
  bool MayKeep(int cast) const {
    const NodeDef& node = view_.node(cast);
    return site_.MayChange(cast) && view_.dtype(view_.fanin(cast)[0]) == tensorflow::DT_FLOAT &&
           IsLowType(view_.dtype(OutputPort{cast, 0})) && !Truncates(node) &&
           state_->context.support->KeepsCasts(node);
  }

  bool FindWeights(const OutputPort& tensor, Weights* weights) const {
    if (IsRead(tensor)) {
      weights->value = tensor;
      return true;
    }
    // A recorder watches the product, as what the Cast rounds.
    if (state_->context.is_watched) return false;
    const NodeDef& product = view_.node(tensor.node);
    if (state_->scaled_weights.count(product.name()) == 0 || product.op() != "Mul") return false;
    weights->value = view_.fanin(tensor.node)[0];
    weights->scale = view_.fanin(tensor.node)[1];
    return IsRead(weights->value) && site_.IsPrivate(tensor.node) &&
           site_.HasOneReader(tensor.node);
  }

  bool IsRead(const OutputPort& tensor) const {
    return HasBufferOfVariable(view_, state_->context.fed, tensor);
  }

  void Write(const Weights& weights, NodeDef* node) const {
    const tensorflow::DataType dtype = node->attr().at("DstT").type();
    std::vector<std::string> controls;
    for (const std::string& input : node->input()) {
      if (input[0] == '^') controls.push_back(input);
    }
    node->set_op(kKeptCastOp);
    node->clear_input();
    node->add_input(TensorName(view_, weights.value));
    if (weights.HasScale()) node->add_input(TensorName(view_, weights.scale));
    for (const std::string& control : controls) node->add_input(control);
    for (const char* name : {"SrcT", "DstT", "Truncate"}) node->mutable_attr()->erase(name);
    (*node->mutable_attr())["dtype"].set_type(dtype);
    (*node->mutable_attr())["S"].set_i(weights.HasScale() ? 1 : 0);
    state_->rewrites.push_back({kPass, node->name(), "Cast", kKeptCastOp});
  }

  PassState* const state_;
  const GraphView& view_;
  const FusionSite site_;
};

}  // namespace

tensorflow::Status KeepLowWeights(PassState* state, bool* changed) {
  const size_t rewrites = state->rewrites.size();
  const GraphView& view = state->view();
  const bool has_reads = !OpSet(view, "ReadVariableOp").IsEmpty();
  if (has_reads && OpSet(view, WritesItsInput).IsEmpty()) Writer(state).Run();
  *changed = state->rewrites.size() != rewrites;
  return tensorflow::Status();
}

}  // namespace npu_precision
