#include "graph_passes/fuse/flatten_mat_muls.h"

#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph_passes/decide/kept_by_mark.h"
#include "graph_passes/fuse/flat_nodes.h"
#include "graph_passes/fuse/flat_product.h"
#include "graph_passes/fuse/fusion_site.h"
#include "graph_passes/graph/constant_values.h"
#include "graph_passes/graph/control_inputs.h"
#include "graph_passes/graph/node_attributes.h"
#include "graph_passes/graph/op_set.h"
#include "graph_passes/graph/op_traits.h"
#include "graph_passes/rewrite/changed_graph.h"
#include "tensorflow/core/framework/attr_value.pb.h"

namespace npu_precision {
namespace {

using tensorflow::GraphDef;
using tensorflow::NodeDef;
using tensorflow::PartialTensorShape;

constexpr int kNone = -1;
constexpr char kOption[] = "flatten_mat_muls";

bool IsProduct(const std::string& op) { return IsBatchMatMul(op) || op == "Einsum"; }
bool AddsVectors(const std::string& op) { return AddsTensors(op) || op == "BiasAdd"; }

// A product, and the chain of its only readers.
struct Site {
  int product = kNone;   // a MatMul, or a node that becomes one
  bool is_flat = false;  // the product is a MatMul
  FlatProduct flat;      // if the product is not a MatMul
  int64_t width = 0;     // columns of the MatMul
  int reshape = kNone;   // behind the product, if a bias follows
  int bias_add = kNone;
  OutputPort bias;
  int64_t bias_dims = 0;
  int residual_add = kNone;
  OutputPort residual;
  std::vector<int> identities;     // before the residual sum: the remains of a Dropout
  bool has_flat_residual = false;  // the residual has a known shape
  // The sum of product and residual, before the bias: an AddN that TensorFlow made.
  int sum = kNone;

  int last() const {
    return residual_add != kNone ? residual_add : bias_add != kNone ? bias_add : product;
  }
};

class Flattener {
 public:
  explicit Flattener(const PassState& state)
      : view_(state.view()),
        context_(state.context),
        site_(state),
        products_(view_, IsProduct),
        mat_muls_(view_, "MatMul"),
        reshapes_(view_, "Reshape"),
        adds_vectors_(view_, AddsVectors),
        adds_tensors_(view_, AddsTensors),
        add_ns_(view_, "AddN"),
        identities_(view_, "Identity") {}

  void Run(PassState* state, bool* changed) {
    const std::vector<Site> sites = FindSites();
    *changed = !sites.empty();
    if (sites.empty()) return;
    GraphDef* out = state->NewGraph();
    CopyWithoutValues(state->graph(), out);
    FlatNodes nodes(view_, site_, out);
    for (const Site& found : sites) Write(found, &nodes, out, &state->rewrites);
    Remove(sites, out);
  }

 private:
  // Visits products in the order of names: a sum of two products is the residual sum of the first.
  std::vector<Site> FindSites() {
    std::vector<int> ids;
    for (int id = 0; id < view_.size(); ++id) {
      if (products_.Has(id) || mat_muls_.Has(id)) ids.push_back(id);
    }
    std::vector<Site> sites;
    for (int id : InOrderOfNames(view_, std::move(ids))) {
      Site found;
      found.product = id;
      found.is_flat = mat_muls_.Has(id);
      if (!MayRewrite(id, "MatMul")) continue;
      if (found.is_flat ? !FindBias(&found) : !FindProduct(&found)) continue;
      FindResidual(&found);
      if (found.residual_add != kNone) claimed_.insert(found.residual_add);
      sites.push_back(std::move(found));
    }
    return sites;
  }

  // Whether this run decides about the node, and the node may become the other op.
  bool MayRewrite(int id, const char* op) const {
    const NodeDef& node = view_.node(id);
    return !HasControlInputs(view_, id) && site_.MayBecome(id, op) &&
           KeptByMark(node, context_, false) == Reason::kNone && claimed_.count(id) == 0;
  }

  bool FindProduct(Site* found) const {
    if (!ReadFlatProduct(view_, site_, found->product, &found->flat)) return false;
    found->width = found->flat.width;
    FindBias(found);
    // The user's Reshape may contain a -1.
    return found->reshape == kNone || found->flat.has_own_depth ||
           found->flat.x_shape.IsFullyDefined();
  }

  // Finds the only reader of the node. Returns false if another node refers to it, or the reader
  // has another device or scope.
  bool FindReader(int id, InputPort* use) const {
    if (!site_.MayVanish(id) || !site_.HasOneReader(id)) return false;
    *use = view_.fanout(id)[0];
    return site_.AreAlike(id, use->node);
  }

  bool FindBias(Site* found) const {
    InputPort use;
    if (!FindReader(found->product, &use)) return false;
    int before = found->product, reshape = kNone;
    if (reshapes_.Has(use.node) && use.index == 0) {
      before = reshape = use.node;
      if (!FindReader(reshape, &use)) return false;
    } else if (found->is_flat) {
      return FindBiasAndReshape(use, found);
    }
    int sum = kNone;
    if (add_ns_.Has(use.node) && view_.num_fanin(use.node) == 2 && MayRewrite(use.node, "AddV2")) {
      sum = use.node;
      found->residual = view_.fanin(sum)[1 - use.index];
      if (!FindReader(sum, &use)) return false;
    }
    if (!ReadBias(use, found)) return false;
    if (found->is_flat && !ReadWidth(found)) return false;
    const PartialTensorShape of_bias = site_.Shape(found->bias);
    if (!AreColumns(site_.Shape({before, 0}), of_bias, found->width)) return false;
    found->reshape = reshape;
    found->bias_add = use.node;
    found->bias_dims = of_bias.dims();
    if (sum != kNone) {
      found->sum = sum;
      found->residual_add = use.node;
      found->has_flat_residual = site_.Shape({sum, 0}).IsFullyDefined();
    }
    return true;
  }

  // Reads the bias from the sum whose other input is `use`.
  bool ReadBias(const InputPort& use, Site* found) const {
    const int add = use.node;
    if (!adds_vectors_.Has(add) || !MayRewrite(add, "BiasAdd") || !IsOfFloat32(add)) return false;
    if (!adds_tensors_.Has(add) && (use.index != 0 || !HasChannelsLast(view_.node(add))))
      return false;
    found->bias = view_.fanin(add)[1 - use.index];
    return true;
  }

  // Finds the bias of a MatMul that is followed by a Reshape and a residual sum. TensorFlow fuses
  // ops that follow directly, but not the residual sum behind the Reshape.
  bool FindBiasAndReshape(const InputPort& bias_use, Site* found) const {
    InputPort reshape_use;
    if (!ReadBias(bias_use, found)) return false;
    if (!FindReader(bias_use.node, &reshape_use) || reshape_use.index != 0) return false;
    if (!reshapes_.Has(reshape_use.node)) return false;
    const PartialTensorShape of_bias = site_.Shape(found->bias);
    if (!ReadWidth(found) || !IsRow(of_bias, found->width)) return false;
    found->bias_dims = of_bias.dims();
    if (!FindResidualBehind(reshape_use.node, found)) return false;
    found->bias_add = bias_use.node;
    found->reshape = reshape_use.node;
    return true;
  }

  bool IsOfFloat32(int id) const { return view_.outputs(id)[0].dtype == tensorflow::DT_FLOAT; }

  // Reads the width of a MatMul.
  bool ReadWidth(Site* found) const {
    const PartialTensorShape weights = site_.Shape(view_.fanin(found->product)[1]);
    if (weights.dims() != 2) return false;
    const auto transposed = view_.node(found->product).attr().find("transpose_b");
    const bool is_transposed =
        transposed != view_.node(found->product).attr().end() && transposed->second.b();
    found->width = weights.dim_size(is_transposed ? 0 : 1);
    return found->width > 0;
  }

  // Whether the bias is a single row of the MatMul.
  static bool IsRow(const PartialTensorShape& bias, int64_t width) {
    const int dims = bias.dims();
    return (dims == 1 || (dims == 2 && bias.dim_size(0) == 1)) && bias.dim_size(dims - 1) == width;
  }

  // Whether the bias is as long as a row of the MatMul, and of the last dimensions of the tensor.
  static bool AreColumns(const PartialTensorShape& tensor, const PartialTensorShape& bias,
                         int64_t width) {
    if (bias.dims() < 1 || tensor.dims() <= bias.dims() || bias.num_elements() != width) {
      return false;
    }
    const int before = tensor.dims() - bias.dims();
    for (int dim = 0; dim < bias.dims(); ++dim) {
      if (tensor.dim_size(before + dim) != bias.dim_size(dim)) return false;
    }
    return true;
  }

  void FindResidual(Site* found) const {
    if (found->bias_add == kNone || found->residual_add != kNone) return;
    FindResidualBehind(found->bias_add, found);
  }

  // TensorFlow fuses a residual sum if it can infer that both sides have one shape.
  bool FindResidualBehind(int before, Site* found) const {
    InputPort use;
    std::vector<int> identities;
    if (!FindReader(before, &use)) return false;
    while (identities_.Has(use.node)) {
      identities.push_back(use.node);
      if (!MayRewrite(use.node, "Identity") || !FindReader(use.node, &use)) return false;
    }
    if (!adds_tensors_.Has(use.node) || !MayRewrite(use.node, "AddV2")) return false;
    const OutputPort residual = view_.fanin(use.node)[1 - use.index];
    const PartialTensorShape shape = site_.Shape({before, 0});
    if (!shape.IsFullyDefined() || !shape.IsIdenticalTo(site_.Shape(residual))) return false;
    found->residual_add = use.node;
    found->residual = residual;
    found->identities = std::move(identities);
    found->has_flat_residual = true;
    return true;
  }

  void Write(const Site& found, FlatNodes* nodes, GraphDef* out,
             std::vector<RewriteEntry>* rewrites) const {
    const std::string& name = view_.node(found.product).name();
    nodes->Begin(found.product, WeightsOf(found).node);
    std::string tensor = name;
    if (!found.is_flat) {
      const bool keeps_name = found.bias_add != kNone || IsFlat(found.flat);
      NodeDef* mat_mul = out->mutable_node(found.product);
      if (!keeps_name) mat_mul = nodes->Add(absl::StrCat(name, "/npu_mat_mul"), "MatMul");
      WriteMatMul(found.flat, name, nodes, mat_mul);
      rewrites->push_back({kOption, name, view_.node(found.product).op(), "MatMul"});
      if (IsFlat(found.flat) && found.bias_add == kNone) return;
      tensor = mat_mul->name();
    }
    const std::string mat_mul = tensor;
    const auto tell = [&](int id, const char* after) {
      const NodeDef& node = view_.node(id);
      rewrites->push_back({kOption, node.name(), node.op(), absl::StrCat(after, " of ", mat_mul)});
    };
    if (found.bias_add != kNone) {
      WriteBiasAdd(found, &tensor, nodes, out);
      tell(found.bias_add, "BiasAdd");
    }
    if (found.has_flat_residual) {
      const std::string& add = view_.node(found.residual_add).name();
      const std::string residual = nodes->Rows(found.residual, found.width);
      NodeDef* node = nodes->Add(absl::StrCat(add, "/npu_add"), "AddV2");
      node->add_input(tensor);
      node->add_input(residual);
      tensor = node->name();
      if (found.sum == kNone) tell(found.residual_add, "AddV2");
    }
    if (found.sum != kNone) tell(found.sum, "AddV2");
    NodeDef* last = out->mutable_node(found.last());
    if (found.sum == kNone || found.has_flat_residual) {
      WriteReshape(found, tensor, nodes, last);
      return;
    }
    NodeDef* back = nodes->Add(absl::StrCat(last->name(), "/npu_back"), "Reshape");
    WriteReshape(found, tensor, nodes, back);
    BecomeOp("AddV2", last);
    last->add_input(back->name());
    last->add_input(TensorName(view_, found.residual));
  }

  OutputPort WeightsOf(const Site& found) const {
    return found.is_flat ? view_.fanin(found.product)[1] : found.flat.weights;
  }

  // Whether both operands, and so the result, have two dimensions.
  static bool IsFlat(const FlatProduct& flat) {
    return flat.x_shape.dims() == 2 && flat.has_flat_weights;
  }

  void WriteMatMul(const FlatProduct& flat, const std::string& name, FlatNodes* nodes,
                   NodeDef* node) const {
    const std::string x =
        flat.x_shape.dims() == 2 ? TensorName(view_, flat.x) : nodes->Rows(flat.x, flat.depth);
    std::string weights = TensorName(view_, flat.weights);
    if (!flat.has_flat_weights) {
      const std::vector<int64_t> shape = flat.is_transposed
                                             ? std::vector<int64_t>{flat.width, flat.depth}
                                             : std::vector<int64_t>{flat.depth, flat.width};
      weights = nodes->Reshape(absl::StrCat(name, "/npu_weights"), flat.weights, shape);
    }
    BecomeOp("MatMul", node);
    node->add_input(x);
    node->add_input(weights);
    (*node->mutable_attr())["transpose_a"].set_b(false);
    (*node->mutable_attr())["transpose_b"].set_b(flat.is_transposed);
  }

  // Adds the BiasAdd behind `tensor`, which becomes the sum.
  void WriteBiasAdd(const Site& found, std::string* tensor, FlatNodes* nodes, GraphDef* out) const {
    const std::string& name = view_.node(found.bias_add).name();
    std::string bias = TensorName(view_, found.bias);
    if (found.bias_dims > 1) {
      bias = nodes->Reshape(absl::StrCat(name, "/npu_bias"), found.bias, {found.width});
    }
    NodeDef* node = out->mutable_node(found.bias_add);
    if (found.bias_add == found.last()) {
      node = nodes->Add(absl::StrCat(name, "/npu_bias_add"), "BiasAdd");
    }
    BecomeOp("BiasAdd", node);
    node->add_input(*tensor);
    node->add_input(bias);
    (*node->mutable_attr())["data_format"].set_s("NHWC");
    *tensor = node->name();
  }

  // Adds a Reshape to the dimensions of the result.
  void WriteReshape(const Site& found, const std::string& tensor, FlatNodes* nodes,
                    NodeDef* node) const {
    std::string shape;
    tensorflow::DataType dtype = tensorflow::DT_INT32;
    if (found.reshape == kNone) {
      shape = nodes->ResultShape(absl::StrCat(view_.node(found.product).name(), "/npu_shape"),
                                 found.flat);
    } else {
      shape = view_.node(found.reshape).input(1);
      dtype = view_.inputs(found.reshape)[1].dtype;
    }
    BecomeOp("Reshape", node);
    node->add_input(tensor);
    node->add_input(shape);
    (*node->mutable_attr())["Tshape"].set_type(dtype);
  }

  static void Remove(const std::vector<Site>& sites, GraphDef* out) {
    std::unordered_set<int> removed;
    for (const Site& found : sites) {
      removed.insert({found.reshape, found.sum});
      removed.insert(found.identities.begin(), found.identities.end());
    }
    int kept = 0;
    for (int id = 0; id < out->node_size(); ++id) {
      if (removed.count(id) == 0) out->mutable_node()->SwapElements(kept++, id);
    }
    out->mutable_node()->DeleteSubrange(kept, out->node_size() - kept);
  }

  const GraphView& view_;
  const DecideContext& context_;
  const FusionSite site_;
  const OpSet products_, mat_muls_, reshapes_, adds_vectors_, adds_tensors_, add_ns_, identities_;
  std::unordered_set<int> claimed_;  // nodes that are already used as residual sums
};

}  // namespace

tensorflow::Status FlattenMatMuls(PassState* state, bool* changed) {
  *changed = false;
  const GraphView& view = state->view();
  if (OpSet(view, IsProduct).IsEmpty() && OpSet(view, "MatMul").IsEmpty()) {
    return tensorflow::Status();
  }
  Flattener(*state).Run(state, changed);
  return tensorflow::Status();
}

}  // namespace npu_precision
