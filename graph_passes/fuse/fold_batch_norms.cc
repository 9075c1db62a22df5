#include "graph_passes/fuse/fold_batch_norms.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "graph_passes/decide/kept_by_mark.h"
#include "graph_passes/graph/control_inputs.h"
#include "graph_passes/graph/float_values.h"
#include "graph_passes/graph/fused_ops.h"
#include "graph_passes/graph/node_attributes.h"
#include "graph_passes/graph/op_set.h"
#include "graph_passes/graph/op_traits.h"
#include "graph_passes/rewrite/constants.h"
#include "tensorflow/core/framework/attr_value.pb.h"
#include "tensorflow/core/framework/tensor.pb.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/lib/core/errors.h"

namespace npu_precision {
namespace {

using tensorflow::DataType;
using tensorflow::GraphDef;
using tensorflow::NodeDef;
using tensorflow::Status;
using tensorflow::TensorProto;

// The inputs of a fused batch norm after x.
enum Parameter { kScale, kOffset, kMean, kVariance, kParameters };

constexpr int kNone = -1;
constexpr char kWeightsSuffix[] = "/npu_folded_weights";
constexpr char kBiasSuffix[] = "/npu_folded_bias";

// One batch norm, and the nodes that it may be folded into.
struct Site {
  int norm = kNone;
  int bias_add = kNone;  // between the convolution and the batch norm, if there is one
  int convolution = kNone;
};

DataType TypeOf(const NodeDef& node) {
  const auto found = node.attr().find("T");
  return found == node.attr().end() ? tensorflow::DT_INVALID : found->second.type();
}

double Largest(DataType low) {
  return low == tensorflow::DT_HALF ? 65504.0 : std::numeric_limits<float>::max();
}

// Makes `proto` a float32 tensor of that shape; returns its uninitialized bytes.
char* Content(const tensorflow::TensorShape& shape, TensorProto* proto) {
  proto->set_dtype(tensorflow::DT_FLOAT);
  shape.AsProto(proto->mutable_tensor_shape());
  std::string* content = proto->mutable_tensor_content();
  content->resize(shape.num_elements() * sizeof(float));
  return &(*content)[0];
}

// Returns false if the value does not fit, or is NaN.
inline bool Put(double value, int64_t i, double largest, char* content) {
  const float rounded = static_cast<float>(value);
  std::memcpy(content + i * sizeof(rounded), &rounded, sizeof(rounded));
  return std::abs(rounded) <= largest;
}

class BatchNormFolder {
 public:
  BatchNormFolder(const GraphView& view, const DecideContext& context, ConstantValues* values)
      : view_(view), context_(context), constants_(context, view, values) {}

  Status Run(PassState* state, bool* changed) {
    std::vector<Fold> folds;
    for (int id = 0; id < view_.size(); ++id) {
      Site site;
      bool found = false;
      TF_RETURN_IF_ERROR(FindSite(id, &site, &found));
      Fold fold;
      if (found && Compute(site, &fold)) folds.push_back(std::move(fold));
    }
    *changed = !folds.empty();
    if (folds.empty()) return Status();
    for (const Fold& fold : folds) Release(fold);
    GraphDef* out = state->NewGraph();
    const std::vector<int> places = constants_.CopyKept(state->graph(), out);
    for (Fold& fold : folds) {
      Apply(&fold, places, out);
      const NodeDef& norm = view_.node(fold.site.norm);
      const std::string& into = view_.node(fold.site.convolution).name();
      state->rewrites.push_back(
          {"fold_batch_norms", norm.name(), norm.op(), absl::StrCat("BiasAdd of ", into)});
    }
    state->values.AddOwn(out);
    return Status();
  }

 private:
  Status FindSite(int id, Site* site, bool* found) {
    *found = false;
    const NodeDef& norm = view_.node(id);
    if (!IsBatchNorm(norm.op())) return Status();
    const auto training = norm.attr().find("is_training");
    if (training == norm.attr().end() || training->second.b()) return Status();
    if (view_.fanout(id).size() != view_.fanout({id, 0}).size()) return Status();
    site->norm = id;
    int before = view_.fanin(id)[0].node;
    if (view_.node(before).op() == "BiasAdd") {
      site->bias_add = before;
      if (!IsReadOnlyOnce(before) || HasControlInputs(view_, before) ||
          constants_.IsPinned(before)) {
        return Status();
      }
      before = view_.fanin(before)[0].node;
    }
    site->convolution = before;
    if (!Convolves(view_.node(before).op()) || !IsReadOnlyOnce(before)) return Status();
    for (int node : {site->norm, site->bias_add, site->convolution}) {
      if (node == kNone) continue;
      bool may_change = false;
      TF_RETURN_IF_ERROR(MayChange(node, &may_change));
      if (!may_change || HasChannelsLast(view_.node(node)) != HasChannelsLast(norm)) {
        return Status();
      }
    }
    *found = view_.IndexOf(absl::StrCat(norm.name(), kWeightsSuffix)) < 0 &&
             view_.IndexOf(absl::StrCat(norm.name(), kBiasSuffix)) < 0;
    return Status();
  }

  bool IsReadOnlyOnce(int id) const { return view_.fanout(id).size() == 1; }

  // Whether the node is float32, and the mode, the lists and the caller allow another op in its
  // place.
  Status MayChange(int id, bool* may_change) const {
    const NodeDef& node = view_.node(id);
    *may_change = view_.op_def(id) != nullptr && TypeOf(node) == tensorflow::DT_FLOAT &&
                  !constants_.IsFixed(id) && KeptByMark(node, context_, false) == Reason::kNone;
    if (!*may_change || context_.mode.rule != ModeRule::kMix) return Status();
    Listing listing;
    TF_RETURN_IF_ERROR(context_.lists->OfNode(NameInMixlist(node.name()), OpsOf(node),
                                              context_.support->KindOf(node), &listing));
    *may_change = listing.color != ListColor::kBlack && listing.color != ListColor::kUnlisted;
    return Status();
  }

  // A float32 constant, and the path to it.
  struct Constant {
    std::vector<int> path;
    const TensorProto* proto = nullptr;
    FloatValues values;
  };
  bool Read(int id, int input, Constant* constant) const {
    constant->path = constants_.PathBack(view_.fanin(id)[input]);
    if (constant->path.empty()) return false;
    constant->proto = constants_.Value(constant->path);
    return constant->proto != nullptr && constant->values.Read(*constant->proto);
  }

  // The result at a site, and the paths to the constants that it no longer reads.
  struct Fold {
    Site site;
    TensorProto scaled, offsets;
    std::vector<int> weights, offset;
    std::vector<std::vector<int>> others;
  };

  bool Compute(const Site& site, Fold* fold) const {
    Constant weights, bias, parameters[kParameters];
    if (!Read(site.convolution, 1, &weights) || !HasOneReader(weights)) return false;
    const tensorflow::TensorShape shape(weights.proto->tensor_shape());
    if (shape.dims() < 4) return false;
    // The weights of a depthwise convolution are [..., channels, multiplier].
    const bool depthwise = view_.node(site.convolution).op() == "DepthwiseConv2dNative";
    const int64_t channels =
        shape.dim_size(shape.dims() - 1) * (depthwise ? shape.dim_size(shape.dims() - 2) : 1);
    for (int i = 0; i < kParameters; ++i) {
      if (!Read(site.norm, i + 1, &parameters[i])) return false;
      if (parameters[i].values.size() != channels) return false;
    }
    if (site.bias_add != kNone) {
      if (!Read(site.bias_add, 1, &bias) || bias.values.size() != channels) return false;
    }

    const float epsilon = view_.node(site.norm).attr().at("epsilon").f();
    std::vector<double> scales(channels);
    const double largest = Largest(context_.mode.low_type);
    bool fit = true;
    char* offsets = Content(tensorflow::TensorShape({channels}), &fold->offsets);
    for (int64_t c = 0; c < channels; ++c) {
      const auto parameter = [&parameters, c](Parameter i) {
        return static_cast<double>(parameters[i].values[c]);
      };
      scales[c] = parameter(kScale) / std::sqrt(parameter(kVariance) + epsilon);
      const double before = site.bias_add == kNone ? 0.0 : bias.values[c];
      const double offset = parameter(kOffset) + (before - parameter(kMean)) * scales[c];
      fit &= Put(offset, c, largest, offsets);
    }
    char* scaled = Content(shape, &fold->scaled);
    for (int64_t i = 0; i < weights.values.size(); i += channels) {
      for (int64_t c = 0; c < channels; ++c) {
        fit &= Put(weights.values[i + c] * scales[c], i + c, largest, scaled);
      }
    }
    if (!fit) return false;

    fold->site = site;
    fold->weights = std::move(weights.path);
    fold->offset = std::move(parameters[kOffset].path);
    for (Parameter i : {kScale, kMean, kVariance}) {
      fold->others.push_back(std::move(parameters[i].path));
    }
    if (site.bias_add != kNone) {
      fold->others.push_back({site.bias_add});
      fold->others.push_back(std::move(bias.path));
    }
    return true;
  }

  void Release(const Fold& fold) {
    constants_.Release(fold.weights);
    constants_.Release(fold.offset);
    for (const std::vector<int>& path : fold.others) constants_.Release(path);
  }

  // The bytes of the weights are moved, not copied, because weights are large.
  void Apply(Fold* fold, const std::vector<int>& places, GraphDef* out) const {
    const std::string& name = view_.node(fold->site.norm).name();
    const std::string weights = absl::StrCat(name, kWeightsSuffix);
    const std::string bias = absl::StrCat(name, kBiasSuffix);
    const int filter = fold->weights.back(), offset = fold->offset.back();
    AddConstant(weights, &fold->scaled, filter, {filter}, out);
    std::vector<int> folded = {offset};
    for (const std::vector<int>& path : fold->others) folded.push_back(path.back());
    AddConstant(bias, &fold->offsets, offset, folded, out);
    out->mutable_node(places[fold->site.convolution])->set_input(1, weights);
    BecomeBiasAdd(fold->site, bias, out->mutable_node(places[fold->site.norm]));
  }

  // Otherwise the unscaled weights of another reader would have to be kept beside the scaled ones.
  bool HasOneReader(const Constant& constant) const {
    for (int id : constant.path) {
      if (!IsReadOnlyOnce(id)) return false;
    }
    return true;
  }

  // Adds a constant on the device of `like`, with the control inputs of all nodes of `folded`.
  void AddConstant(const std::string& name, TensorProto* value, int like,
                   const std::vector<int>& folded, GraphDef* out) const {
    NodeDef* node = out->add_node();
    node->set_name(name);
    node->set_op("Const");
    node->set_device(view_.node(like).device());
    std::set<std::string> controls;
    for (int id : folded) AddControlInputs(view_.node(id), &controls);
    for (const std::string& control : controls) node->add_input(control);
    constants_.DropControlInputs(node);
    (*node->mutable_attr())["dtype"].set_type(value->dtype());
    (*node->mutable_attr())["value"].mutable_tensor()->Swap(value);
  }

  void BecomeBiasAdd(const Site& site, const std::string& bias, NodeDef* node) const {
    const NodeDef& norm = view_.node(site.norm);
    NodeDef bias_add;
    bias_add.set_name(norm.name());
    bias_add.set_op("BiasAdd");
    bias_add.set_device(norm.device());
    bias_add.add_input(view_.node(site.convolution).name());
    bias_add.add_input(bias);
    for (const std::string& input : node->input()) {
      if (input[0] == '^') bias_add.add_input(input);
    }
    (*bias_add.mutable_attr())["T"].set_type(tensorflow::DT_FLOAT);
    (*bias_add.mutable_attr())["data_format"].set_s(HasChannelsLast(norm) ? "NHWC" : "NCHW");
    const auto place = norm.attr().find("_class");
    if (place != norm.attr().end()) (*bias_add.mutable_attr())["_class"] = place->second;
    node->Swap(&bias_add);
  }

  const GraphView& view_;
  const DecideContext& context_;
  Constants constants_;
};

}  // namespace

Status FoldBatchNorms(PassState* state, bool* changed) {
  *changed = false;
  if (OpSet(state->view(), IsBatchNorm).IsEmpty()) return Status();
  return BatchNormFolder(state->view(), state->context, &state->values).Run(state, changed);
}

}  // namespace npu_precision
