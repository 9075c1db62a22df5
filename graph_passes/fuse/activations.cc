#include "graph_passes/fuse/activations.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph_passes/decide/kept_by_mark.h"
#include "graph_passes/fuse/activation_forms.h"
#include "graph_passes/fuse/flat_nodes.h"
#include "graph_passes/fuse/fusion_site.h"
#include "graph_passes/graph/control_inputs.h"
#include "graph_passes/graph/marks.h"
#include "graph_passes/graph/node_attributes.h"
#include "graph_passes/graph/op_set.h"
#include "graph_passes/graph/op_traits.h"
#include "graph_passes/rewrite/constants.h"
#include "graph_passes/rewrite/unique_names.h"
#include "tensorflow/core/framework/attr_value.pb.h"
#include "tensorflow/core/framework/tensor.h"

namespace npu_precision {
namespace {

using tensorflow::DataType;
using tensorflow::GraphDef;
using tensorflow::NodeDef;
using tensorflow::PartialTensorShape;

constexpr int kNone = -1;
// A bound on the steps from an activation's input to its first op, and from that to its last op.
constexpr int kMostSteps = 10;
// TensorFlow's arithmetic optimizer gives this mark to products that it has regrouped, and does not
// regroup factors of a marked one. It would exchange the factors of an approximate GELU. The
// remapper matches only one order of them, and only in the second of TensorFlow's passes over a
// graph.
constexpr char kRegrouped[] = "_grappler_ArithmeticOptimizer_MinimizeBroadcasts";

// A product and its bias. Keras' Dense has a Reshape between them, which sink_reshapes moves. GPT-2
// and flatten_mat_muls reshape the sum.
struct Layer {
  int x = kNone;  // the input of the activation: the sum, or its Reshape
  int biased = kNone;
  int reshape = kNone;  // before the bias
  int product = kNone;
  int bias_input = 1;
  bool IsReshaped() const { return x != biased; }
};

// An activation behind a layer.
struct Site {
  Layer layer;
  Activation activation;
  int root = kNone;  // the node that yields it
  std::vector<int> inside;
  std::set<int> constants;
  Form form;  // no op if the root already has a form that is fused
};

bool IsProduct(const std::string& op) { return op == "MatMul" || op == "Conv2D"; }

class ActivationWriter {
 public:
  explicit ActivationWriter(PassState* state)
      : view_(state->view()),
        context_(state->context),
        values_(state->values),
        site_(*state),
        constants_(state->context, state->view(), &state->values),
        names_(state->view()),
        parts_(state->view(), IsPartOfActivation),
        is_claimed_(state->view().size(), false) {}

  void Run(PassState* state, bool* changed) {
    std::vector<Site> sites;
    for (int id : parts_.Ids()) {
      Site site;
      if (!is_claimed_[id] && FindSite(id, &site)) sites.push_back(std::move(site));
    }
    *changed = !sites.empty();
    if (sites.empty()) return;
    for (const Site& site : sites) Release(site);
    GraphDef* out = state->NewGraph();
    const std::vector<int> places = constants_.CopyKept(state->graph(), out);
    FlatNodes nodes(view_, site_, out);
    for (const Site& site : sites) {
      Write(site, places, &nodes, out);
      const std::string& product = view_.node(site.layer.product).name();
      state->rewrites.push_back({"activations", view_.node(site.root).name(), Before(site),
                                 absl::StrCat(ActivationName(site.activation), " of ", product)});
    }
    state->values.AddOwn(out);
  }

 private:
  // Finds the activation that the node `part` belongs to.
  bool FindSite(int part, Site* site) {
    int steps = 0;
    OutputPort x = {kNone, 0};
    if (!FindBiased(view_.fanin(part)[0], &steps, &x)) return false;
    ActivationReader reader(view_, site_, x);
    int root = part;
    for (int step = 0; step < kMostSteps; ++step) {
      if (view_.fanout(root).size() != 1) return false;
      root = view_.fanout(root)[0].node;
      if (view_.op_def(root) == nullptr || view_.num_outputs(root) != 1) return false;
      const DataType dtype = view_.outputs(root)[0].dtype;
      if (dtype != tensorflow::DT_FLOAT && dtype != tensorflow::DT_BFLOAT16) return false;
      site->activation = reader.Read(root);
      if (site->activation == Activation::kNone) continue;
      site->root = root;
      return FindLayer(x.node, &site->layer) && IsFused(*site, reader) && Take(reader, site);
    }
    return false;
  }

  // Finds the first sum with a bias that the tensor is computed from. `steps` bounds the search.
  bool FindBiased(const OutputPort& tensor, int* steps, OutputPort* x) const {
    if (++*steps > kMostSteps) return false;
    Layer layer;
    if (tensor.port == 0 && FindLayer(tensor.node, &layer)) {
      *x = tensor;
      return true;
    }
    if (site_.Constant(tensor) != nullptr || view_.num_fanin(tensor.node) > 2) return false;
    for (const OutputPort& input : view_.fanin(tensor.node)) {
      if (FindBiased(input, steps, x)) return true;
    }
    return false;
  }

  bool FindLayer(int x, Layer* layer) const {
    const int biased = view_.node(x).op() == "Reshape" ? view_.fanin(x)[0].node : x;
    const NodeDef& node = view_.node(biased);
    layer->x = x;
    layer->biased = biased;
    if (node.op() != "BiasAdd" && !AddsTensors(node.op())) return false;
    for (int input : {0, 1}) {
      if (input == 1 && !AddsTensors(node.op())) break;
      int id = view_.fanin(biased)[input].node;
      layer->reshape = view_.node(id).op() == "Reshape" ? id : kNone;
      if (layer->reshape != kNone) id = view_.fanin(id)[0].node;
      layer->product = id;
      layer->bias_input = 1 - input;
      if (IsProduct(view_.node(id).op())) return x == biased || layer->reshape == kNone;
    }
    return false;
  }

  // Whether TensorFlow will fuse the site once it has the right form.
  bool IsFused(const Site& site, const ActivationReader& reader) const {
    const Layer& layer = site.layer;
    if (KeptByMark(view_.node(site.root), context_, false) != Reason::kNone) return false;
    if (!site_.MayChange(site.root) || HasControlInputs(view_, site.root)) return false;
    for (int id : reader.nodes()) {
      if (is_claimed_[id] || !IsLike(id, site.root)) return false;
      if (id != site.root && (!site_.MayVanish(id) || !IsReadInside(id, reader))) return false;
    }
    if (!IsPlain(layer.x) || !IsLike(layer.x, site.root)) return false;
    if (layer.IsReshaped() ? !site_.MayVanish(layer.x) || !IsReadInside(layer.x, reader)
                           : !IsReadInsideInTheEnd(layer.x, reader)) {
      return false;
    }
    const bool is_gelu = site.activation == Activation::kGeluExact ||
                         site.activation == Activation::kGeluApproximate;
    const NodeDef& product = view_.node(layer.product);
    if ((product.op() == "MatMul") != is_gelu || IsTransposed(product, 0)) return false;
    if (!is_gelu && (layer.reshape != kNone || layer.IsReshaped())) return false;
    // The numbers in an activation may have two dimensions.
    if (layer.IsReshaped() && site_.Shape({layer.x, 0}).dims() < 2) return false;
    for (int id : {layer.product, layer.reshape, layer.IsReshaped() ? layer.biased : kNone}) {
      if (id == kNone) continue;
      if (!IsPlain(id) || !site_.HasOneReader(id) || !IsLike(id, site.root)) return false;
    }
    return HasFittingBias(layer);
  }

  // TensorFlow fuses no node with control dependencies.
  bool IsPlain(int id) const { return !HasControlInputs(view_, id) && site_.IsPrivate(id); }

  bool IsLike(int id, int root) const {
    return view_.num_outputs(id) == 1 &&
           view_.outputs(id)[0].dtype == view_.outputs(root)[0].dtype && site_.AreAlike(id, root);
  }

  static bool IsReadBy(const InputPort& use, const ActivationReader& reader) {
    return reader.nodes().count(use.node) != 0;
  }

  bool IsReadInside(int id, const ActivationReader& reader) const {
    const absl::Span<const InputPort> uses = view_.fanout(id);
    return std::all_of(uses.begin(), uses.end(),
                       [&](const InputPort& use) { return IsReadBy(use, reader); });
  }

  // A custom gradient passes its inputs to itself by outputs of an IdentityN that have no readers
  // in inference. TensorFlow drops these outputs before it fuses; until then they read the node.
  bool IsReadInsideInTheEnd(int id, const ActivationReader& reader) const {
    const absl::Span<const InputPort> uses = view_.fanout(id);
    return std::all_of(uses.begin(), uses.end(), [&](const InputPort& use) {
      const bool is_dropped = view_.node(use.node).op() == "IdentityN" &&
                              context_.preserved.count(view_.node(use.node).name()) == 0 &&
                              view_.fanout(OutputPort{use.node, use.index}).empty();
      return is_dropped || IsReadBy(use, reader);
    });
  }

  // sink_reshapes moves a Reshape only if weights and bias are constants of the same width. An
  // AddV2 becomes a BiasAdd if it adds a vector to the last dimension.
  bool HasFittingBias(const Layer& layer) const {
    const NodeDef& biased = view_.node(layer.biased);
    const OutputPort& bias = view_.fanin(layer.biased)[layer.bias_input];
    if (layer.reshape != kNone) {
      const auto* weights =
          ShapeOfConstant(view_, values_, context_.fed, view_.fanin(layer.product)[1]);
      const auto* vector = ShapeOfConstant(view_, values_, context_.fed, bias);
      if (weights == nullptr || weights->dim_size() != 2 || vector == nullptr ||
          vector->dim_size() != 1 || !HasChannelsLast(biased)) {
        return false;
      }
      const int width = IsTransposed(view_.node(layer.product), 1) ? 0 : 1;
      if (weights->dim(width).size() != vector->dim(0).size()) return false;
    }
    if (!AddsTensors(biased.op())) return true;
    if (!site_.MayVanish(layer.biased)) return false;
    if (!HasChannelsLast(view_.node(layer.product))) return false;
    const PartialTensorShape vector = site_.Shape(bias);
    const OutputPort& to = view_.fanin(layer.biased)[1 - layer.bias_input];
    const int dims = vector.dims();
    if (dims < 1 || vector.dim_size(dims - 1) <= 0) return false;
    // GPT-2's bias has a leading dimension of 1, because the product has two dimensions.
    const bool is_row = dims == 2 && vector.dim_size(0) == 1 && site_.Shape(to).dims() == 2 &&
                        view_.outputs(layer.biased)[0].dtype == tensorflow::DT_FLOAT;
    return (dims == 1 || is_row) && vector.dim_size(dims - 1) == LastOfSeveral(to);
  }

  // The size of the last dimension, if the tensor has at least two; -1 if it is not known. If the
  // batch size is unknown, TensorFlow cannot infer the last dimension of a Reshape whose shape is
  // concatenated. It is then read from the parts.
  int64_t LastOfSeveral(const OutputPort& tensor) const {
    const PartialTensorShape shape = site_.Shape(tensor);
    if (shape.dims() >= 2 && shape.dim_size(shape.dims() - 1) > 0) {
      return shape.dim_size(shape.dims() - 1);
    }
    if (shape.dims() < 2 || view_.node(tensor.node).op() != "Reshape") return -1;
    const int joined = view_.fanin(tensor.node)[1].node;
    const std::string& op = view_.node(joined).op();
    const int parts = view_.num_fanin(joined) - (op == "ConcatV2" ? 1 : 0);
    std::vector<int64_t> last;
    if ((op != "ConcatV2" && op != "Pack") || parts < 1) return -1;
    const bool is_known = site_.Integers(view_.fanin(joined)[parts - 1], &last);
    return is_known && !last.empty() ? last.back() : -1;
  }

  // Returns false if there is nothing to change.
  bool Take(const ActivationReader& reader, Site* site) {
    const std::vector<Form> forms = FusedForms(site->activation);
    const auto has = [&](const Form& form) { return reader.Has(form, {site->root, 0}); };
    const bool is_written = std::any_of(forms.begin(), forms.end(), has);
    if (is_written && !site->layer.IsReshaped() && AreMarked(*site, reader) &&
        !AddsTensors(view_.node(site->layer.biased).op())) {
      return false;
    }
    site->form = forms[0];
    site->constants = reader.constants();
    if (!MayWrite(*site, site->form, /*is_root=*/true)) return false;
    for (int id : reader.nodes()) {
      is_claimed_[id] = true;
      if (id != site->root) site->inside.push_back(id);
    }
    if (site->layer.IsReshaped()) site->inside.push_back(site->layer.x);
    return true;
  }

  static bool NeedsMark(const std::string& op) { return op == "Square" || op == "Softplus"; }

  bool AreMarked(const Site& site, const ActivationReader& reader) const {
    if (site.activation == Activation::kGeluApproximate &&
        view_.node(site.root).attr().count(kRegrouped) == 0) {
      return false;
    }
    return std::all_of(reader.nodes().begin(), reader.nodes().end(), [&](int id) {
      const NodeDef& node = view_.node(id);
      return !NeedsMark(node.op()) || HasFusedMark(node);
    });
  }

  // Whether no file of the user names an op of the form.
  bool MayWrite(const Site& site, const Form& form, bool is_root) const {
    if (form.op.empty() || form.IsNumber()) return true;
    NodeDef node;
    const std::string& root = view_.node(site.root).name();
    node.set_name(is_root ? root : absl::StrCat(root, "/npu_", form.op));
    node.set_op(form.op);
    if (!site_.MayAdd(node)) return false;
    return std::all_of(form.inputs.begin(), form.inputs.end(),
                       [&](const Form& input) { return MayWrite(site, input, false); });
  }

  // The ops that computed the activation before: "Erf", "Erfc", "Tanh and Pow".
  std::string Before(const Site& site) const {
    std::set<std::string> ops;
    for (int id : site.inside) ops.insert(view_.node(id).op());
    ops.insert(view_.node(site.root).op());
    std::string text;
    for (const std::string& op : ops) absl::StrAppend(&text, text.empty() ? "" : ", ", op);
    return text;
  }

  void Release(const Site& site) {
    std::vector<int> nodes = site.inside;
    nodes.push_back(site.root);
    for (int id : nodes) {
      for (const OutputPort& input : view_.fanin(id)) {
        if (site.constants.count(input.node) == 0) continue;
        const std::vector<int> path = constants_.PathBack(input);
        if (!path.empty()) constants_.Release(path);
      }
    }
    for (int id : site.inside) {
      for (size_t reads = view_.fanout(id).size(); reads > 0; --reads) constants_.Release({id});
    }
  }

  void Write(const Site& site, const std::vector<int>& places, FlatNodes* nodes, GraphDef* out) {
    if (AddsTensors(view_.node(site.layer.biased).op())) {
      const std::string bias = Vector(site.layer, nodes);
      BecomeBiasAdd(site.layer, bias, out->mutable_node(places[site.layer.biased]));
    }
    std::set<std::string> controls;
    for (int id : site.constants) AddControlInputs(view_.node(id), &controls);
    // The root is copied, because its address changes when nodes are added.
    const int place = places[site.root];
    NodeDef root = out->node(place);
    root.clear_input();
    if (site.layer.IsReshaped()) {
      BecomeReshape(site, Add(site, site.form, controls, out), &root);
    } else {
      root.set_op(site.form.op);
      (*root.mutable_attr())[kRegrouped].set_b(true);
      for (const Form& input : site.form.inputs) root.add_input(Add(site, input, controls, out));
    }
    out->mutable_node(place)->Swap(&root);
  }

  // The Reshape of the sum then stands behind the activation.
  void BecomeReshape(const Site& site, const std::string& activation, NodeDef* root) const {
    const NodeDef& before = view_.node(site.layer.x);
    root->set_op(before.op());
    root->add_input(activation);
    root->add_input(before.input(1));
    const auto type = before.attr().find("Tshape");
    if (type != before.attr().end()) (*root->mutable_attr())["Tshape"] = type->second;
  }

  // The name of a new node that computes the form.
  std::string Add(const Site& site, const Form& form, const std::set<std::string>& controls,
                  GraphDef* out) {
    const NodeDef& root = view_.node(site.root);
    if (form.op.empty()) return view_.node(site.layer.biased).name();
    NodeDef node;
    node.set_name(names_.Take(absl::StrCat(root.name(), "/npu_", form.op)));
    node.set_op(form.op);
    site_.Inherit(site.root, &node);
    const DataType dtype = view_.outputs(site.root)[0].dtype;
    if (form.IsNumber()) {
      for (const std::string& control : controls) node.add_input(control);
      (*node.mutable_attr())["dtype"].set_type(dtype);
      SetNumber(form.number, dtype, (*node.mutable_attr())["value"].mutable_tensor());
    } else {
      (*node.mutable_attr())["T"].set_type(dtype);
      if (NeedsMark(form.op)) MarkFused(&node);
      for (const Form& input : form.inputs) node.add_input(Add(site, input, controls, out));
    }
    const std::string name = node.name();
    out->add_node()->Swap(&node);
    return name;
  }

  static void SetNumber(double number, DataType dtype, tensorflow::TensorProto* proto) {
    tensorflow::Tensor tensor(dtype, tensorflow::TensorShape({}));
    if (dtype == tensorflow::DT_FLOAT) {
      tensor.scalar<float>()() = static_cast<float>(number);
    } else {
      tensor.scalar<tensorflow::bfloat16>()() = tensorflow::bfloat16(static_cast<float>(number));
    }
    tensor.AsProtoField(proto);
  }

  // The bias as a vector, which a BiasAdd requires.
  std::string Vector(const Layer& layer, FlatNodes* nodes) const {
    const OutputPort& bias = view_.fanin(layer.biased)[layer.bias_input];
    const PartialTensorShape shape = site_.Shape(bias);
    if (shape.dims() == 1) return TensorName(view_, bias);
    nodes->Begin(layer.biased, view_.fanin(layer.product)[0].node);
    const std::string name = absl::StrCat(view_.node(layer.biased).name(), "/npu_bias");
    return nodes->Reshape(name, bias, {shape.dim_size(shape.dims() - 1)});
  }

  void BecomeBiasAdd(const Layer& layer, const std::string& bias, NodeDef* node) const {
    const std::string to = node->input(1 - layer.bias_input);
    node->set_op("BiasAdd");
    node->set_input(0, to);
    node->set_input(1, bias);
    (*node->mutable_attr())["data_format"].set_s("NHWC");
  }

  const GraphView& view_;
  const DecideContext& context_;
  const ConstantValues& values_;
  const FusionSite site_;
  Constants constants_;
  UniqueNames names_;
  const OpSet parts_;
  std::vector<bool> is_claimed_;
};

}  // namespace

tensorflow::Status WriteActivations(PassState* state, bool* changed) {
  *changed = false;
  if (OpSet(state->view(), IsPartOfActivation).IsEmpty()) return tensorflow::Status();
  ActivationWriter(state).Run(state, changed);
  return tensorflow::Status();
}

}  // namespace npu_precision
