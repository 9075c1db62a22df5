#include "graph_passes/fuse/fold_scales.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph_passes/analysis/moderate_scales.h"
#include "graph_passes/analysis/variable_buffers.h"
#include "graph_passes/decide/kept_by_mark.h"
#include "graph_passes/fuse/channel_chains.h"
#include "graph_passes/fuse/convolution_padding.h"
#include "graph_passes/fuse/flat_nodes.h"
#include "graph_passes/fuse/fusion_site.h"
#include "graph_passes/graph/constant_values.h"
#include "graph_passes/graph/marks.h"
#include "graph_passes/graph/op_set.h"
#include "graph_passes/graph/op_traits.h"
#include "tensorflow/core/framework/attr_value.pb.h"

namespace npu_precision {
namespace {

using tensorflow::GraphDef;
using tensorflow::NodeDef;
using tensorflow::PartialTensorShape;

constexpr char kDepthwise[] = "DepthwiseConv2dNative";
constexpr char kNorm[] = "FusedBatchNormV3";
constexpr int kRank = 4, kChannels = 3;
// A Mul and an AddV2 with their Casts pass over the result about four times, a Mul over the weights
// once.
constexpr int64_t kPasses = 4;
// A bound on the nodes that compute a scale and an offset.
constexpr size_t kMostBehind = 64;

bool IsConvolution(const std::string& op) { return op == "Conv2D" || op == kDepthwise; }

class ScaleFolder {
 public:
  explicit ScaleFolder(PassState* state)
      : state_(state),
        view_(state->view()),
        site_(*state, FusionSite::Devices::kCpusAndGpus),
        chains_(view_, site_) {}

  void Run() {
    for (int id : InOrderOfNames(view_, OpSet(view_, IsConvolution).Ids())) FindFold(id);
    for (int id : InOrderOfNames(view_, OpSet(view_, "Mul").Ids())) FindNorm(id);
    if (folds_.empty() && norms_.empty()) return;
    std::vector<bool> vanishes(view_.size(), false);
    for (const std::vector<ChannelChain>* found : {&folds_, &norms_}) {
      for (const ChannelChain& chain : *found) {
        for (const ChannelChain::Step& step : chain.steps) vanishes[step.node] = true;
        vanishes[chain.end()] = false;
      }
    }
    GraphDef* out = state_->NewGraph();
    CopyAllButNodes(state_->graph(), out);
    for (int id = 0; id < view_.size(); ++id) {
      places_.push_back(out->node_size());
      if (!vanishes[id]) CopyWithoutValue(view_.node(id), out->add_node());
    }
    FlatNodes nodes(view_, site_, out);
    for (const ChannelChain& chain : folds_) Fold(chain, &nodes, out);
    for (const ChannelChain& chain : norms_) WriteNorm(chain, &nodes, out);
  }

 private:
  void FindFold(int convolution) {
    const NodeDef& node = view_.node(convolution);
    if (view_.op_def(convolution) == nullptr || !IsPlainConvolution(node) ||
        view_.outputs(convolution)[0].dtype != tensorflow::DT_FLOAT ||
        KeptByMark(node, state_->context, false) != Reason::kNone ||
        !chains_.MayVanish(convolution)) {
      return;
    }
    const ChannelChain chain = chains_.From(view_.fanout(convolution)[0], "BiasAdd", "Identity");
    if (!chain.has_scale || !site_.AreAlike(convolution, chain.end()) || !FitsLowType(chain) ||
        !IsCheap(chain)) {
      return;
    }
    chains_.Take(chain);
    folds_.push_back(chain);
  }

  // A chain behind anything else, and behind a convolution with many weights. What is fetched has
  // one output, and a FusedBatchNormV3 has several.
  void FindNorm(int product) {
    const auto inputs = view_.fanin(product);
    if (inputs.size() != 2 || view_.op_def(product) == nullptr ||
        view_.outputs(product)[0].dtype != tensorflow::DT_FLOAT ||
        KeptByMark(view_.node(product), state_->context, false) != Reason::kNone) {
      return;
    }
    for (int index : {0, 1}) {
      const ChannelChain chain = chains_.From({product, index}, kNorm, "");
      if (!chain.has_scale || !chains_.IsFree(chain) || !site_.MayVanish(chain.end()) ||
          !IsImage(chain) || !MayRunNorm(chain) || IsOfBatch(chain)) {
        continue;
      }
      chains_.Take(chain);
      norms_.push_back(chain);
      return;
    }
  }

  // Whether the scale comes from what it scales, as in a batch norm that is trained. Its gradient
  // reads and yields float32, so that nothing is gained by the low type here.
  bool IsOfBatch(const ChannelChain& chain) const {
    const std::vector<int> behind = Behind(chain);
    return std::find(behind.begin(), behind.end(), chain.root.node) != behind.end();
  }

  // The nodes that compute scale and offset, but for very many.
  std::vector<int> Behind(const ChannelChain& chain) const {
    std::vector<int> behind;
    for (const ChannelChain::Step& step : chain.steps) behind.push_back(step.vector.node);
    for (size_t i = 0; i < behind.size() && i < kMostBehind; ++i) {
      for (const OutputPort& from : view_.fanin(behind[i])) {
        const bool is_new = std::find(behind.begin(), behind.end(), from.node) == behind.end();
        if (is_new) behind.push_back(from.node);
      }
    }
    return behind;
  }

  bool IsImage(const ChannelChain& chain) const {
    const PartialTensorShape shape = site_.Shape(chain.root);
    return shape.dims() == kRank && shape.dim_size(kChannels) == chain.channels;
  }

  // Whether the machine has a kernel of the low type.
  bool MayRunNorm(const ChannelChain& chain) const {
    const NodeDef& like = view_.node(chain.end());
    NodeDef norm;
    norm.set_name(like.name());
    BecomeFusedNorm(kNorm, 0, false, &norm);
    norm.set_device(like.device());
    (*norm.mutable_attr())["T"].set_type(state_->context.mode.low_type);
    return state_->context.support->CanRun(like, norm);
  }

  // A float16 holds no scaled weight above 65504. A batch norm with a tiny epsilon has such scales
  // where a channel is always zero.
  bool FitsLowType(const ChannelChain& chain) const {
    if (state_->context.mode.low_type != tensorflow::DT_HALF) return true;
    return std::all_of(
        chain.steps.begin(), chain.steps.end(), [this](const ChannelChain::Step& step) {
          return view_.node(step.node).op() != "Mul" ||
                 IsModerateScale(view_, state_->values, state_->context.fed, step.vector);
        });
  }

  bool IsCheap(const ChannelChain& chain) const {
    const PartialTensorShape weights = site_.Shape(view_.fanin(chain.root.node)[1]);
    const PartialTensorShape made = site_.Shape(chain.root);
    if (!weights.IsFullyDefined() || weights.dims() != kRank || made.dims() != kRank) return false;
    const bool is_depthwise = view_.node(chain.root.node).op() == kDepthwise;
    // Weights of a depthwise convolution are [height, width, channels, multiplier].
    if (is_depthwise && weights.dim_size(kChannels) != 1) return false;
    if (weights.dim_size(is_depthwise ? kChannels - 1 : kChannels) != chain.channels) return false;
    if (KeepsScaled(chain.root.node) || IsOfConstants(chain)) return true;
    int64_t elements = chain.channels;
    for (int dim = 0; dim < kChannels; ++dim) {
      if (made.dim_size(dim) > 0) elements *= made.dim_size(dim);
    }
    return weights.num_elements() <= kPasses * elements;
  }

  // Whether TensorFlow scales the weights once, in Grappler's second iteration. It also writes a
  // batch norm of constants as a scale, before an entry that is written by hand.
  bool IsOfConstants(const ChannelChain& chain) const {
    const int convolution = chain.root.node;
    if (!state_->context.support->HasOwnOps(view_.node(convolution)) ||
        site_.Constant(view_.fanin(convolution)[1]) == nullptr) {
      return false;
    }
    const std::vector<int> behind = Behind(chain);
    return behind.size() <= kMostBehind &&
           std::all_of(behind.begin(), behind.end(), [this](int id) {
             const NodeDef& node = view_.node(id);
             const bool is_constant = node.op() == "Const" || view_.num_fanin(id) > 0;
             return is_constant && view_.op_def(id) != nullptr &&
                    !view_.op_def(id)->is_stateful() && state_->context.fed.count(node.name()) == 0;
           });
  }

  // Whether low_weights will scale and round the weights in one sweep, and not again before they
  // change.
  bool KeepsScaled(int convolution) const {
    const DecideContext& context = state_->context;
    return context.keeps_weights && context.support->KeepsCasts(view_.node(convolution)) &&
           HasBufferOfVariable(view_, context.fed, view_.fanin(convolution)[1]);
  }

  void Fold(const ChannelChain& chain, FlatNodes* nodes, GraphDef* out) {
    const int convolution = chain.root.node;
    nodes->Begin(convolution, view_.fanin(convolution)[1].node);
    const std::string scale = chains_.Scale(chain, nodes);
    const std::string offset = chains_.Offset(chain, nodes);
    ScaleWeights(chain, scale, nodes, out->mutable_node(places_[convolution]));
    NodeDef* end = out->mutable_node(places_[chain.end()]);
    const std::string& name = view_.node(convolution).name();
    ReplaceOp(site_, chain.end(), offset.empty() ? "Identity" : "BiasAdd", {name, offset}, end);
    if (!offset.empty()) (*end->mutable_attr())["data_format"].set_s("NHWC");
    AddLater(chain, out);
    Tell(chain, absl::StrCat(end->op(), " of ", name));
  }

  void ScaleWeights(const ChannelChain& chain, std::string scale, FlatNodes* nodes,
                    NodeDef* convolution) {
    const std::string& name = convolution->name();
    if (convolution->op() == kDepthwise) {
      scale = nodes->Reshape(absl::StrCat(name, "/npu_folded_scale"), scale, {chain.channels, 1});
    }
    const std::string weights = TensorName(view_, view_.fanin(chain.root.node)[1]);
    const std::string product =
        chains_.Combined(absl::StrCat(name, "/npu_folded_weights"), "Mul", weights, scale, nodes);
    convolution->set_input(1, product);
    state_->scaled_weights.insert(product);
  }

  // As a batch norm of mean 0 and variance 1.
  void WriteNorm(const ChannelChain& chain, FlatNodes* nodes, GraphDef* out) {
    const int end = chain.end();
    nodes->Begin(end, chain.root.node);
    const std::string scale = chains_.Scale(chain, nodes);
    const std::string offset = chains_.Offset(chain, nodes);
    const std::string name = view_.node(end).name();
    const std::string mean = nodes->Floats(absl::StrCat(name, "/npu_mean"), chain.channels, 0);
    const std::string one = nodes->Floats(absl::StrCat(name, "/npu_variance"), chain.channels, 1);
    NodeDef* norm = out->mutable_node(places_[end]);
    ReplaceOp(site_, end, kNorm, {TensorName(view_, chain.root), scale, offset, mean, one}, norm);
    BecomeFusedNorm(kNorm, 0, false, norm);
    AddLater(chain, out);
    Tell(chain, kNorm);
  }

  void AddLater(const ChannelChain& chain, GraphDef* out) const {
    if (chain.inner == ChannelChain::kNone) return;
    NodeDef* sum = out->mutable_node(places_[chain.outer]);
    sum->set_input(0, view_.node(chain.inner).name());
    sum->set_input(1, TensorName(view_, chain.other));
  }

  void Tell(const ChannelChain& chain, const std::string& after) {
    const NodeDef& before = view_.node(chain.end());
    state_->rewrites.push_back({"fold_scales", before.name(), before.op(), after});
  }

  PassState* const state_;
  const GraphView& view_;
  const FusionSite site_;
  ChannelChains chains_;
  std::vector<ChannelChain> folds_, norms_;
  std::vector<int> places_;  // by node id, in the new graph
};

}  // namespace

tensorflow::Status FoldScales(PassState* state, bool* changed) {
  const size_t rewrites = state->rewrites.size();
  if (!OpSet(state->view(), "Mul").IsEmpty()) ScaleFolder(state).Run();
  *changed = state->rewrites.size() != rewrites;
  return tensorflow::Status();
}

}  // namespace npu_precision
