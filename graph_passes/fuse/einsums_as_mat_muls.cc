#include "graph_passes/fuse/einsums_as_mat_muls.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph_passes/decide/kept_by_mark.h"
#include "graph_passes/fuse/batched_product.h"
#include "graph_passes/fuse/flat_nodes.h"
#include "graph_passes/fuse/fusion_site.h"
#include "graph_passes/graph/constant_values.h"
#include "graph_passes/graph/control_inputs.h"
#include "graph_passes/graph/op_set.h"
#include "graph_passes/rewrite/changed_graph.h"
#include "tensorflow/core/framework/attr_value.pb.h"

namespace npu_precision {
namespace {

using tensorflow::GraphDef;
using tensorflow::NodeDef;
using tensorflow::PartialTensorShape;

constexpr char kProduct[] = "BatchMatMulV2", kTranspose[] = "Transpose";

struct Site {
  int einsum = -1;
  BatchedProduct product;
};

class EinsumWriter {
 public:
  explicit EinsumWriter(PassState* state)
      : state_(*state), view_(state->view()), site_(*state), einsums_(view_, "Einsum") {}

  bool Run() {
    std::vector<Site> sites;
    for (int id : InOrderOfNames(view_, einsums_.Ids())) {
      Site found;
      found.einsum = id;
      if (MayRewrite(id) && ReadBatchedProduct(view_.node(id), &found.product) &&
          MayTranspose(found) && OperandsAgree(found)) {
        sites.push_back(std::move(found));
      }
    }
    if (sites.empty()) return false;
    GraphDef* out = state_.NewGraph();
    CopyWithoutValues(state_.graph(), out);
    FlatNodes nodes(view_, site_, out);
    for (const Site& found : sites) {
      Write(found, &nodes, out);
      state_.rewrites.push_back(
          {"einsums_as_mat_muls", view_.node(found.einsum).name(), "Einsum", kProduct});
    }
    return true;
  }

 private:
  bool MayRewrite(int id) const {
    return !HasControlInputs(view_, id) && view_.num_fanin(id) == 2 &&
           view_.outputs(id)[0].dtype == tensorflow::DT_FLOAT && site_.MayBecome(id, kProduct) &&
           KeptByMark(view_.node(id), state_.context, false) == Reason::kNone;
  }

  // Whether no file of the user names a Transpose that must be added.
  bool MayTranspose(const Site& found) const {
    const BatchedProduct& product = found.product;
    for (const BatchedProduct::Operand* operand : {&product.first, &product.second}) {
      const OutputPort& tensor = view_.fanin(found.einsum)[operand->input];
      if (!operand->perm.empty() &&
          !MayAddTranspose(FlatNodes::TransposeName(view_, tensor, operand->perm))) {
        return false;
      }
    }
    return product.result_perm.empty() || MayAddTranspose(view_.node(found.einsum).name());
  }

  bool MayAddTranspose(const std::string& name) const {
    NodeDef node;
    node.set_name(name);
    node.set_op(kTranspose);
    return site_.MayAdd(node);
  }

  // A BatchMatMul broadcasts a dimension of size 1, where an Einsum fails.
  bool OperandsAgree(const Site& found) const {
    PartialTensorShape shapes[2];
    for (int input : {0, 1}) {
      shapes[input] = site_.Shape(view_.fanin(found.einsum)[input]);
      const int dims = static_cast<int>(found.product.labels[input].size());
      if (shapes[input].dims() != dims) return false;
    }
    const std::string& labels = found.product.labels[0];
    for (size_t dim = 0; dim < labels.size(); ++dim) {
      const size_t other = found.product.labels[1].find(labels[dim]);
      if (other == std::string::npos) continue;
      const int64_t size = shapes[0].dim_size(dim), other_size = shapes[1].dim_size(other);
      if (size >= 0 && other_size >= 0 && size != other_size) return false;
    }
    return true;
  }

  void Write(const Site& found, FlatNodes* nodes, GraphDef* out) const {
    const BatchedProduct& product = found.product;
    const std::string first = Operand(found, product.first, nodes);
    const std::string second = Operand(found, product.second, nodes);
    nodes->Begin(found.einsum, view_.fanin(found.einsum)[0].node);
    const std::string& name = view_.node(found.einsum).name();
    NodeDef* node = out->mutable_node(found.einsum);
    if (!product.result_perm.empty()) {
      node = nodes->Add(absl::StrCat(name, "/npu_product"), kProduct);
    }
    BecomeOp(kProduct, node);
    node->add_input(first);
    node->add_input(second);
    (*node->mutable_attr())["adj_x"].set_b(product.first.adjoint);
    (*node->mutable_attr())["adj_y"].set_b(product.second.adjoint);
    if (product.result_perm.empty()) return;
    const std::string perm = nodes->Vector(
        absl::StrCat(name, "/perm"), {product.result_perm.begin(), product.result_perm.end()});
    const std::string batched = node->name();
    node = out->mutable_node(found.einsum);
    BecomeOp(kTranspose, node);
    node->add_input(batched);
    node->add_input(perm);
    (*node->mutable_attr())["Tperm"].set_type(tensorflow::DT_INT32);
  }

  // The text of an input that reads the operand, transposed if needed.
  std::string Operand(const Site& found, const BatchedProduct::Operand& operand,
                      FlatNodes* nodes) const {
    const OutputPort& tensor = view_.fanin(found.einsum)[operand.input];
    if (operand.perm.empty()) return TensorName(view_, tensor);
    nodes->Begin(found.einsum, tensor.node);
    return nodes->Transpose(tensor, operand.perm);
  }

  PassState& state_;
  const GraphView& view_;
  const FusionSite site_;
  const OpSet einsums_;
};

}  // namespace

tensorflow::Status WriteEinsumsAsMatMuls(PassState* state, bool* changed) {
  *changed = !OpSet(state->view(), "Einsum").IsEmpty() && EinsumWriter(state).Run();
  return tensorflow::Status();
}

}  // namespace npu_precision
