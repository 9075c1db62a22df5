#include "graph_passes/fuse/fold_scales.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph_passes/decide/kept_by_mark.h"
#include "graph_passes/fuse/convolution_padding.h"
#include "graph_passes/fuse/flat_nodes.h"
#include "graph_passes/fuse/fusion_site.h"
#include "graph_passes/graph/constant_values.h"
#include "graph_passes/graph/marks.h"
#include "graph_passes/graph/op_set.h"
#include "graph_passes/graph/op_traits.h"
#include "graph_passes/rewrite/cast_nodes.h"
#include "tensorflow/core/framework/attr_value.pb.h"

namespace npu_precision {
namespace {

using tensorflow::GraphDef;
using tensorflow::NodeDef;
using tensorflow::PartialTensorShape;

constexpr char kDepthwise[] = "DepthwiseConv2dNative";
constexpr int kRank = 4, kChannels = 3;
// A Mul and an AddV2 with their Casts pass over the result about four times, a Mul over the weights
// once.
constexpr int64_t kPasses = 4;
constexpr size_t kMostSteps = 8;
// With such an epsilon, a scale is at most 3,200 times gamma, which float16 holds.
constexpr double kSafeEpsilon = 1e-7;
constexpr int kNone = -1;

bool IsConvolution(const std::string& op) { return op == "Conv2D" || op == kDepthwise; }

// One node of a chain: it combines its input with a vector.
struct Step {
  int node;
  OutputPort vector;
};

struct Chain {
  int convolution;
  int64_t channels = 0;
  std::vector<Step> steps;
  // TensorFlow's arithmetic optimizer writes (conv * s + t) + other as (conv * s + other) + t,
  // where it may write an AddN. If not kNone: the inner sum, the outer one, and what they add.
  int inner = kNone, outer = kNone;
  OutputPort other, last_vector;

  // The node that yields the result of the convolution and its bias.
  int end() const { return inner == kNone ? steps.back().node : inner; }
};

class ScaleFolder {
 public:
  explicit ScaleFolder(PassState* state)
      : state_(state), view_(state->view()), site_(*state), is_taken_(view_.size(), false) {}

  void Run(const std::vector<int>& convolutions) {
    std::vector<Chain> chains;
    std::vector<bool> vanishes(view_.size(), false);
    for (int id : InOrderOfNames(view_, convolutions)) {
      Chain chain = ChainOf(id);
      if (!HasScale(chain) || !FitsLowType(chain) || !IsCheap(chain)) continue;
      for (const Step& step : chain.steps) vanishes[step.node] = true;
      vanishes[chain.end()] = false;
      if (chain.inner != kNone) is_taken_[chain.inner] = true;
      chains.push_back(std::move(chain));
    }
    if (chains.empty()) return;
    GraphDef* out = state_->NewGraph();
    CopyAllButNodes(state_->graph(), out);
    for (int id = 0; id < view_.size(); ++id) {
      places_.push_back(out->node_size());
      if (!vanishes[id]) CopyWithoutValue(view_.node(id), out->add_node());
    }
    FlatNodes nodes(view_, site_, out);
    for (const Chain& chain : chains) Fold(chain, &nodes, out);
  }

 private:
  // The longest chain of sums and products with vectors behind a convolution.
  Chain ChainOf(int convolution) const {
    Chain chain;
    chain.convolution = convolution;
    const NodeDef& node = view_.node(convolution);
    if (view_.op_def(convolution) == nullptr || !IsPlainConvolution(node) ||
        view_.outputs(convolution)[0].dtype != tensorflow::DT_FLOAT ||
        KeptByMark(node, state_->context, false) != Reason::kNone) {
      return chain;
    }
    size_t length = 0;  // up to the last node that may become a BiasAdd
    bool adds = false;
    for (int last = convolution; chain.steps.size() < kMostSteps && MayVanish(last);) {
      const InputPort use = view_.fanout(last)[0];
      Step step;
      if (!site_.AreAlike(convolution, use.node)) break;
      if (!IsStep(use, &step) || !ReadsChannels(step.vector, &chain)) {
        if (length > 0 && length == chain.steps.size()) TakeSum(use, &chain);
        break;
      }
      chain.steps.push_back(step);
      last = use.node;
      adds |= view_.node(last).op() != "Mul";
      if (site_.MayBecome(last, adds ? "BiasAdd" : "Identity")) length = chain.steps.size();
    }
    chain.steps.resize(length);
    return chain;
  }

  bool MayVanish(int id) const { return site_.MayVanish(id) && site_.HasOneReader(id); }

  // Takes a sum with another tensor, if a vector is added to it.
  void TakeSum(const InputPort& use, Chain* chain) const {
    const int inner = use.node;
    const std::string& op = view_.node(inner).op();
    if ((op != "AddN" && !AddsTwo(op)) || view_.num_fanin(inner) != 2 || is_taken_[inner] ||
        !MayVanish(inner)) {
      return;
    }
    const InputPort outer = view_.fanout(inner)[0];
    Step step;
    if (!AddsTwo(view_.node(outer.node).op()) || !site_.AreAlike(inner, outer.node) ||
        !site_.MayChange(outer.node) || !IsStep(outer, &step) ||
        !ReadsChannels(step.vector, chain)) {
      return;
    }
    chain->inner = inner;
    chain->outer = outer.node;
    chain->other = view_.fanin(inner)[1 - use.index];
    chain->last_vector = step.vector;
  }

  static bool AddsTwo(const std::string& op) { return op == "AddV2" || op == "Add"; }

  bool IsStep(const InputPort& use, Step* step) const {
    const NodeDef& node = view_.node(use.node);
    const std::string& op = node.op();
    if (op == "BiasAdd") {
      const auto format = node.attr().find("data_format");
      if (use.index != 0 || (format != node.attr().end() && format->second.s() != "NHWC")) {
        return false;
      }
    } else if (op != "Mul" && op != "AddV2" && op != "Add" && !(op == "Sub" && use.index == 0)) {
      return false;
    }
    *step = {use.node, view_.fanin(use.node)[1 - use.index]};
    return true;
  }

  // Whether the tensor has one element per channel, the last dimension.
  bool ReadsChannels(const OutputPort& tensor, Chain* chain) const {
    const PartialTensorShape shape = site_.Shape(tensor);
    if (shape.dims() < 1 || shape.dims() > kRank || !shape.IsFullyDefined()) return false;
    const int64_t channels = shape.dim_size(shape.dims() - 1);
    if (channels < 2 || shape.num_elements() != channels) return false;
    if (chain->steps.empty()) chain->channels = channels;
    return channels == chain->channels;
  }

  bool HasScale(const Chain& chain) const {
    for (const Step& step : chain.steps) {
      if (view_.node(step.node).op() == "Mul") return true;
    }
    return false;
  }

  // A float16 holds no scaled weight above 65504. A batch norm with a tiny epsilon has such scales
  // where a channel is always zero.
  bool FitsLowType(const Chain& chain) const {
    if (state_->context.mode.low_type != tensorflow::DT_HALF) return true;
    return std::all_of(chain.steps.begin(), chain.steps.end(), [this](const Step& step) {
      return view_.node(step.node).op() != "Mul" || IsModerate(step.vector);
    });
  }

  bool IsModerate(const OutputPort& tensor) const {
    const auto moves = [this](int id) {
      return view_.IsTransparent(id) || MovesValues(view_.node(id).op());
    };
    const int id = view_.LookThrough(tensor, moves).node;
    const auto inputs = view_.fanin(id);
    const std::string& op = view_.node(id).op();
    if (op == "Mul" && inputs.size() == 2) return IsModerate(inputs[0]) && IsModerate(inputs[1]);
    if (op != "Rsqrt" || inputs.empty()) return IsNeutralSource(op);
    const int sum = inputs[0].node;
    double epsilon = 0;
    return AddsTwo(view_.node(sum).op()) && view_.num_fanin(sum) == 2 &&
           (site_.Number(view_.fanin(sum)[0], &epsilon) ||
            site_.Number(view_.fanin(sum)[1], &epsilon)) &&
           epsilon >= kSafeEpsilon;
  }

  bool IsCheap(const Chain& chain) const {
    const PartialTensorShape weights = site_.Shape(view_.fanin(chain.convolution)[1]);
    const PartialTensorShape made = site_.Shape({chain.convolution, 0});
    if (!weights.IsFullyDefined() || weights.dims() != kRank || made.dims() != kRank) return false;
    const bool is_depthwise = view_.node(chain.convolution).op() == kDepthwise;
    // Weights of a depthwise convolution are [height, width, channels, multiplier].
    if (is_depthwise && weights.dim_size(kChannels) != 1) return false;
    if (weights.dim_size(is_depthwise ? kChannels - 1 : kChannels) != chain.channels) return false;
    int64_t elements = chain.channels;
    for (int dim = 0; dim < kChannels; ++dim) {
      if (made.dim_size(dim) > 0) elements *= made.dim_size(dim);
    }
    return weights.num_elements() <= kPasses * elements;
  }

  void Fold(const Chain& chain, FlatNodes* nodes, GraphDef* out) {
    nodes->Begin(chain.convolution, view_.fanin(chain.convolution)[1].node);
    std::string scale, offset;
    std::vector<Step> steps = chain.steps;
    if (chain.inner != kNone) steps.push_back({chain.outer, chain.last_vector});
    for (const Step& step : steps) {
      const std::string& op = view_.node(step.node).op();
      const std::string vector = Vector(step, {chain.channels}, nodes);
      if (op == "Mul") {
        scale = scale.empty() ? vector : Combined(step.node, "scale", "Mul", scale, vector, nodes);
        if (offset.empty()) continue;
        offset = Combined(step.node, "offset", "Mul", offset, vector, nodes);
      } else if (offset.empty()) {
        offset = op == "Sub" ? Negative(step.node, vector, nodes) : vector;
      } else {
        const char* adds = op == "Sub" ? "Sub" : "AddV2";
        offset = Combined(step.node, "offset", adds, offset, vector, nodes);
      }
    }
    ScaleWeights(chain, scale, nodes, out->mutable_node(places_[chain.convolution]));
    const NodeDef& before = view_.node(chain.end());
    BecomeBiasAdd(chain, offset, out->mutable_node(places_[chain.end()]));
    if (chain.inner != kNone) {
      NodeDef* sum = out->mutable_node(places_[chain.outer]);
      sum->set_input(0, before.name());
      sum->set_input(1, TensorName(view_, chain.other));
    }
    const char* made = offset.empty() ? "Identity of " : "BiasAdd of ";
    state_->rewrites.push_back({"fold_scales", before.name(), before.op(),
                                absl::StrCat(made, view_.node(chain.convolution).name())});
  }

  std::string NameAt(int node, const char* part) const {
    return absl::StrCat(view_.node(node).name(), "/npu_folded_", part);
  }

  std::string Vector(const Step& step, const std::vector<int64_t>& shape, FlatNodes* nodes) const {
    if (site_.Shape(step.vector).dims() == 1) return TensorName(view_, step.vector);
    return nodes->Reshape(NameAt(step.node, "vector"), step.vector, shape);
  }

  // A new node keeps float32, in which a sum or product of few numbers costs nothing.
  std::string Combined(int at, const char* part, const char* op, const std::string& a,
                       const std::string& b, FlatNodes* nodes) const {
    NodeDef* node = nodes->Add(NameAt(at, part), op);
    MarkKeepDtype(node);
    node->add_input(a);
    if (!b.empty()) node->add_input(b);
    return node->name();
  }
  std::string Negative(int at, const std::string& of, FlatNodes* nodes) const {
    return Combined(at, "offset", "Neg", of, "", nodes);
  }

  void ScaleWeights(const Chain& chain, std::string scale, FlatNodes* nodes,
                    NodeDef* convolution) const {
    const OutputPort weights = view_.fanin(chain.convolution)[1];
    if (convolution->op() == kDepthwise) {
      scale = nodes->Reshape(NameAt(chain.convolution, "scale"), scale, {chain.channels, 1});
    }
    const std::string given = TensorName(view_, weights);
    convolution->set_input(1, Combined(chain.convolution, "weights", "Mul", given, scale, nodes));
  }

  void BecomeBiasAdd(const Chain& chain, const std::string& offset, NodeDef* node) const {
    NodeDef sum;
    sum.set_name(node->name());
    site_.Inherit(chain.end(), &sum);
    sum.add_input(view_.node(chain.convolution).name());
    (*sum.mutable_attr())["T"].set_type(tensorflow::DT_FLOAT);
    sum.set_op("Identity");
    if (!offset.empty()) {
      sum.set_op("BiasAdd");
      sum.add_input(offset);
      (*sum.mutable_attr())["data_format"].set_s("NHWC");
    }
    for (const std::string& input : node->input()) {
      if (input[0] == '^') sum.add_input(input);
    }
    node->Swap(&sum);
  }

  PassState* const state_;
  const GraphView& view_;
  const FusionSite site_;
  std::vector<bool> is_taken_;  // by node id, the inner sums of chains
  std::vector<int> places_;     // by node id, in the new graph
};

}  // namespace

tensorflow::Status FoldScales(PassState* state, bool* changed) {
  const size_t rewrites = state->rewrites.size();
  const std::vector<int> convolutions = OpSet(state->view(), IsConvolution).Ids();
  if (!convolutions.empty()) ScaleFolder(state).Run(convolutions);
  *changed = state->rewrites.size() != rewrites;
  return tensorflow::Status();
}

}  // namespace npu_precision
