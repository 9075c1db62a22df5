#include "graph_passes/fuse/layer_norm.h"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph_passes/fuse/layer_norm_form.h"
#include "graph_passes/graph/constant_values.h"
#include "graph_passes/graph/control_inputs.h"
#include "graph_passes/graph/op_set.h"
#include "graph_passes/graph/registered_ops.h"
#include "graph_passes/rewrite/cast_nodes.h"
#include "graph_passes/rewrite/unique_names.h"
#include "tensorflow/core/framework/attr_value.pb.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/tensor_shape.h"

namespace npu_precision {
namespace {

using tensorflow::DataType;
using tensorflow::GraphDef;
using tensorflow::NodeDef;
using tensorflow::PartialTensorShape;

// The numbers of dimensions of x.
constexpr int kFewestDims = 2, kMostDimsThatFuse = 3;
// The variance of a row of one value consists only of rounding errors.
constexpr int64_t kSmallestWidth = 2;

struct Site {
  LayerNormForm form;
  PartialTensorShape shape;  // the shape of x, with known rank and width
};

void SetShape(const PartialTensorShape& shape, const char* attr, NodeDef* node) {
  shape.AsProto((*node->mutable_attr())[attr].mutable_shape());
}

// The nodes that take the place of one LayerNorm.
class LayerNormNodes {
 public:
  LayerNormNodes(const GraphView& view, const FusionSite& fusion, const Site& site,
                 UniqueNames* names, GraphDef* out)
      : view_(view),
        fusion_(fusion),
        last_(site.form.last),
        form_(site.form),
        shape_(site.shape),
        width_(site.shape.dim_size(site.shape.dims() - 1)),
        names_(*names),
        out_(*out) {}

  void Write() {
    const bool fuses = shape_.dims() <= kMostDimsThatFuse && !ReadsReshape();
    const std::string x = Input(form_.x);
    const std::string rows = fuses ? x : Rows(x);
    const PartialTensorShape shape_of_rows =
        fuses ? shape_ : PartialTensorShape({NumRows(), width_});
    const std::string shape = Shape("shape", rows, shape_of_rows);
    const std::string count = Unfolded("count", Count(shape, shape_of_rows));

    NodeDef* image = Add("image", "Reshape", {rows, Integers("image_shape", {1, -1, width_, 1})});
    // TensorFlow fuses only if the given statistics, which the op does not read, are one node.
    const std::string none = None("none");
    NodeDef* norm =
        Add("norm", "FusedBatchNormV3",
            {image->name(), Fill("scale", count, 1), Fill("offset", count, 0), none, none});
    SetType("U", tensorflow::DT_FLOAT, norm);
    (*norm->mutable_attr())["epsilon"].set_f(static_cast<float>(form_.epsilon));
    (*norm->mutable_attr())["data_format"].set_s("NCHW");
    (*norm->mutable_attr())["is_training"].set_b(true);
    NodeDef* back = Add("back", "Reshape", {norm->name(), shape});
    NodeDef* scaled = Add("scaled", "Mul", {back->name(), Parameter("gamma", form_.gamma, 1)});
    const std::vector<std::string> sum = {scaled->name(), Parameter("beta", form_.beta, 0)};
    if (fuses) {
      Become("AddV2", sum);
    } else {
      const std::string flat = Add("sum", "AddV2", sum)->name();
      Become("Reshape", {flat, Shape("shape_of_x", x, shape_)});
    }
  }

 private:
  // Whether x comes from a Reshape. TensorFlow would merge it with the next Reshape, whose input
  // would then have other dimensions than those that the last Reshape restores.
  bool ReadsReshape() const {
    const OutputPort producer = view_.LookThrough(form_.x, [this](int id) {
      const std::string& op = view_.node(id).op();
      return (op == "Identity" || op == "Cast") && view_.num_fanin(id) != 0;
    });
    return view_.node(producer.node).op() == "Reshape";
  }

  std::string Input(const OutputPort& tensor) const {
    return InputName(view_.node(tensor.node).name(), tensor.port);
  }

  // Adds a float32 node. Other attributes of its op have their defaults.
  NodeDef* AddNamed(const std::string& name, const std::string& op,
                    const std::vector<std::string>& inputs) {
    NodeDef* node = out_.add_node();
    node->set_name(name);
    node->set_op(op);
    fusion_.Inherit(last_, node);
    for (const std::string& input : inputs) node->add_input(input);
    for (const auto& attr : RegisteredOp(op)->attr()) {
      if (attr.has_default_value()) (*node->mutable_attr())[attr.name()] = attr.default_value();
      if (attr.name() == "T") SetType("T", tensorflow::DT_FLOAT, node);
    }
    return node;
  }

  NodeDef* Add(const std::string& part, const std::string& op,
               const std::vector<std::string>& inputs) {
    return AddNamed(names_.Take(absl::StrCat(view_.node(last_).name(), "/npu_layer_norm/", part)),
                    op, inputs);
  }

  static void SetType(const char* attr, DataType dtype, NodeDef* node) {
    (*node->mutable_attr())[attr].set_type(dtype);
  }

  std::string Constant(const std::string& part, const tensorflow::Tensor& value) {
    NodeDef* node = Add(part, "Const", {});
    SetType("dtype", value.dtype(), node);
    value.AsProtoField((*node->mutable_attr())["value"].mutable_tensor());
    return node->name();
  }

  std::string Integers(const std::string& part, const std::vector<int64_t>& values) {
    tensorflow::Tensor tensor(tensorflow::DT_INT32,
                              tensorflow::TensorShape({static_cast<int64_t>(values.size())}));
    for (size_t i = 0; i < values.size(); ++i) {
      tensor.flat<tensorflow::int32>()(i) = static_cast<tensorflow::int32>(values[i]);
    }
    return Constant(part, tensor);
  }

  std::string None(const std::string& part) {
    return Constant(part, tensorflow::Tensor(tensorflow::DT_FLOAT, tensorflow::TensorShape({0})));
  }

  // TensorFlow fuses no FusedBatchNormV3 whose scale is a constant, and folds a Fill of known size
  // into a constant before it fuses. It does not look through a PlaceholderWithDefault.
  std::string Unfolded(const std::string& part, const std::string& size) {
    NodeDef* node = Add(part, "PlaceholderWithDefault", {size});
    SetType("dtype", tensorflow::DT_INT32, node);
    SetShape(PartialTensorShape({1}), "shape", node);
    return node->name();
  }

  std::string Fill(const std::string& part, const std::string& size, float value) {
    tensorflow::Tensor number(tensorflow::DT_FLOAT, tensorflow::TensorShape({}));
    number.scalar<float>()() = value;
    return Add(part, "Fill", {size, Constant(absl::StrCat(part, "_value"), number)})->name();
  }

  // The Squeeze prevents TensorFlow from merging the two Reshapes.
  std::string Rows(const std::string& x) {
    NodeDef* groups = Add("groups", "Reshape", {x, Integers("groups_shape", {-1, 1, width_})});
    NodeDef* rows = Add("rows", "Squeeze", {groups->name()});
    (*rows->mutable_attr())["squeeze_dims"].mutable_list()->add_i(1);
    return rows->name();
  }

  // -1 if it is not known.
  int64_t NumRows() const {
    const int64_t elements = shape_.num_elements();
    return elements < 0 ? -1 : elements / width_;
  }

  // The shape of a tensor whose static shape is `shape`.
  std::string Shape(const std::string& part, const std::string& tensor,
                    const PartialTensorShape& shape) {
    if (!shape.IsFullyDefined()) return Add(part, "Shape", {tensor})->name();
    std::vector<int64_t> sizes;
    for (int i = 0; i < shape.dims(); ++i) sizes.push_back(shape.dim_size(i));
    return Integers(part, sizes);
  }

  // The number of rows, as a vector.
  std::string Count(const std::string& shape, const PartialTensorShape& shape_of_rows) {
    if (NumRows() >= 0) return Integers("rows_known", {NumRows()});
    const int64_t dims = shape_of_rows.dims() - 1;
    NodeDef* sizes =
        Add("sizes", "Slice", {shape, Integers("begin", {0}), Integers("dims", {dims})});
    SetType("T", tensorflow::DT_INT32, sizes);
    SetType("Index", tensorflow::DT_INT32, sizes);
    if (dims == 1) return sizes->name();
    NodeDef* product = Add("product", "Prod", {sizes->name(), Integers("axis", {0})});
    SetType("T", tensorflow::DT_INT32, product);
    (*product->mutable_attr())["keep_dims"].set_b(true);
    return product->name();
  }

  std::string Parameter(const std::string& part, const OutputPort& given, float else_value) {
    if (!IsTensor(given)) {
      return Fill(
          part,
          Unfolded(absl::StrCat(part, "_width"), Integers(absl::StrCat(part, "_known"), {width_})),
          else_value);
    }
    if (fusion_.Shape(given).dims() == 1) return Input(given);
    return Add(part, "Reshape", {Input(given), Integers(absl::StrCat(part, "_shape"), {width_})})
        ->name();
  }

  // Only the name, the place and the marks of the last node stay.
  void Become(const std::string& op, const std::vector<std::string>& inputs) {
    NodeDef* node = AddNamed(view_.node(last_).name(), op, inputs);
    const auto place = view_.node(last_).attr().find("_class");
    if (place != view_.node(last_).attr().end()) (*node->mutable_attr())["_class"] = place->second;
  }

  const GraphView& view_;
  const FusionSite& fusion_;
  const int last_;
  const LayerNormForm& form_;
  const PartialTensorShape& shape_;
  const int64_t width_;
  UniqueNames& names_;
  GraphDef& out_;
};

class LayerNormWriter {
 public:
  explicit LayerNormWriter(PassState* state)
      : state_(*state), view_(state->view()), fusion_(*state), is_root_(state->view(), IsRootOp) {}

  bool Run() {
    for (int root : is_root_.Ids()) FindSite(root);
    if (sites_.empty() && counted_from_behind_.empty()) return false;
    for (const Site& site : sites_) RemoveUnread(site.form);
    GraphDef* out = state_.NewGraph();
    CopyAllButNodes(state_.graph(), out);
    for (int id = 0; id < view_.size(); ++id) {
      if (replaced_.count(id) == 0) CopyWithoutValue(view_.node(id), out->add_node());
    }
    UniqueNames names(view_);
    for (const Site& site : sites_) {
      LayerNormNodes(view_, fusion_, site, &names, out).Write();
      state_.rewrites.push_back({"layer_norm", view_.node(site.form.last).name(),
                                 absl::StrCat(site.form.inner.size() + 1, " nodes"),
                                 "FusedBatchNormV3"});
    }
    WriteAxes(&names, out);
    return true;
  }

 private:
  void FindSite(int root) {
    if (!IsFloat32({root, 0})) return;
    for (LayerNormForm& form : LayerNormsOf(view_, fusion_, root)) {
      Site site = {std::move(form), PartialTensorShape()};
      const int last = site.form.last;
      if (!IsReadInsideAlone(site.form) || !MayRun(last, tensorflow::DT_FLOAT)) continue;
      if (!ShapesFit(&site)) continue;
      if (!MayBeReplaced(site.form) || !MayRun(last, state_.context.NewDtype())) {
        CountFromBehind(site.form);
        return;
      }
      replaced_.insert(site.form.inner.begin(), site.form.inner.end());
      replaced_.insert(last);
      sites_.push_back(std::move(site));
      return;
    }
  }

  // TensorFlow would fuse a LayerNorm that stays, with another epsilon, if its axis is counted from
  // the first one.
  void CountFromBehind(const LayerNormForm& form) {
    for (int id : form.inner) {
      std::vector<int64_t> axes;
      if (view_.node(id).op() == "Mean" && fusion_.Integers(view_.fanin(id)[1], &axes) &&
          axes[0] >= 0) {
        counted_from_behind_.push_back(id);
      }
    }
  }

  void WriteAxes(UniqueNames* names, GraphDef* out) {
    std::unordered_map<std::string, std::string> axes;  // by the name of the Mean
    for (int mean : counted_from_behind_) {
      const NodeDef& node = view_.node(mean);
      NodeDef* axis = out->add_node();
      axis->set_name(names->Take(absl::StrCat(node.name(), "/npu_last_axis")));
      axis->set_op("Const");
      axis->set_device(node.device());
      tensorflow::Tensor value(view_.dtype(view_.fanin(mean)[1]), tensorflow::TensorShape({1}));
      if (value.dtype() == tensorflow::DT_INT32) {
        value.flat<tensorflow::int32>()(0) = -1;
      } else {
        value.flat<tensorflow::int64>()(0) = -1;
      }
      (*axis->mutable_attr())["dtype"].set_type(value.dtype());
      value.AsProtoField((*axis->mutable_attr())["value"].mutable_tensor());
      axes[node.name()] = axis->name();
      state_.rewrites.push_back(
          {"layer_norm", node.name(), "axis counted from the first", "axis -1"});
    }
    for (NodeDef& node : *out->mutable_node()) {
      const auto axis = axes.find(node.name());
      if (axis != axes.end()) node.set_input(1, axis->second);
    }
  }

  bool IsFloat32(const OutputPort& tensor) const {
    return view_.dtype(tensor) == tensorflow::DT_FLOAT;
  }

  bool IsReadInsideAlone(const LayerNormForm& form) const {
    return std::all_of(form.inner.begin(), form.inner.end(), [&](int id) {
      const auto uses = view_.fanout(id);
      return std::all_of(uses.begin(), uses.end(), [&](const InputPort& use) {
        return use.node == form.last || form.inner.count(use.node) != 0;
      });
    });
  }

  bool MayBeReplaced(const LayerNormForm& form) const {
    return fusion_.MayChange(form.last) && !HasControlInputs(view_, form.last) &&
           std::all_of(form.inner.begin(), form.inner.end(), [&](int id) {
             return fusion_.MayVanish(id) && fusion_.AreAlike(id, form.last);
           });
  }

  // Whether the machine has kernels of the dtype, both for the ops that are written and for the op
  // that TensorFlow fuses them into.
  bool MayRun(int last, DataType dtype) const {
    NodeDef fused, written;
    fused.set_op("_MklLayerNorm");
    written.set_op("FusedBatchNormV3");
    (*written.mutable_attr())["U"].set_type(tensorflow::DT_FLOAT);
    (*written.mutable_attr())["data_format"].set_s("NCHW");
    for (NodeDef* node : {&fused, &written}) {
      node->set_device(view_.node(last).device());
      (*node->mutable_attr())["T"].set_type(dtype);
      if (!state_.context.support->CanRun(view_.node(last), *node)) return false;
    }
    return true;
  }

  bool ShapesFit(Site* site) const {
    const LayerNormForm& form = site->form;
    site->shape = fusion_.Shape(form.x);
    const int dims = site->shape.dims();
    if (dims < kFewestDims || site->shape.dim_size(dims - 1) < kSmallestWidth) return false;
    const bool over_last = std::all_of(form.axes.begin(), form.axes.end(), [&](int64_t axis) {
      return axis == -1 || axis == dims - 1;
    });
    const int64_t width = site->shape.dim_size(dims - 1);
    return over_last && IsParameter(form.gamma, dims, width) && IsParameter(form.beta, dims, width);
  }

  // Whether the tensor is one row, which is added to every row or multiplies it.
  bool IsParameter(const OutputPort& tensor, int most_dims, int64_t width) const {
    if (!IsTensor(tensor)) return true;
    const PartialTensorShape shape = fusion_.Shape(tensor);
    const int dims = shape.dims();
    return dims >= 1 && dims <= most_dims && shape.dim_size(dims - 1) == width &&
           shape.num_elements() == width;
  }

  // Constants that only replaced nodes read are removed with them.
  void RemoveUnread(const LayerNormForm& form) {
    for (int id : form.inner) {
      for (const OutputPort& input : view_.fanin(id)) {
        const auto uses = view_.fanout(input.node);
        const bool is_constant = view_.node(input.node).op() == "Const";
        if (is_constant && input.node != form.gamma.node && input.node != form.beta.node &&
            fusion_.MayVanish(input.node) &&
            std::all_of(uses.begin(), uses.end(),
                        [this](const InputPort& use) { return replaced_.count(use.node) != 0; })) {
          replaced_.insert(input.node);
        }
      }
    }
  }

  PassState& state_;
  const GraphView& view_;
  const FusionSite fusion_;
  const OpSet is_root_;
  std::vector<Site> sites_;
  std::vector<int> counted_from_behind_;  // Mean nodes
  std::unordered_set<int> replaced_;      // nodes, and constants that only these read
};

}  // namespace

tensorflow::Status WriteLayerNorms(PassState* state, bool* changed) {
  *changed = !OpSet(state->view(), IsRootOp).IsEmpty() && LayerNormWriter(state).Run();
  return tensorflow::Status();
}

}  // namespace npu_precision
