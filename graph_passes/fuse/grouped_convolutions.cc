#include "graph_passes/fuse/grouped_convolutions.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph_passes/decide/kept_by_mark.h"
#include "graph_passes/fuse/convolution_padding.h"
#include "graph_passes/graph/op_set.h"
#include "graph_passes/rewrite/constants.h"
#include "tensorflow/core/framework/attr_value.pb.h"
#include "tensorflow/core/framework/tensor.pb.h"

namespace npu_precision {
namespace {

using tensorflow::GraphDef;
using tensorflow::NodeDef;
using tensorflow::TensorProto;

constexpr char kDepthwise[] = "DepthwiseConv2dNative";
constexpr char kFilterSuffix[] = "/npu_grouped_filter";
// Dimensions of a depthwise filter: [height, width, channels, multiplier].
constexpr int kChannels = 2, kMultiplier = 3, kFilterRank = 4;

class Grouper {
 public:
  explicit Grouper(PassState* state)
      : state_(state),
        view_(state->view()),
        site_(*state),
        padding_(view_, site_),
        constants_(state->context, view_, &state->values) {}

  void Run(const std::vector<int>& depthwise) {
    std::set<int> pads;
    std::set<int> grouped;
    for (int id : depthwise) {
      if (HasActivationOfConv2D(id) && MayBecomeGrouped(id)) grouped.insert(id);
      pads.insert(view_.fanin(id)[0].node);
    }
    for (int pad : pads) {
      for (int id : ThatReplace(pad)) grouped.insert(id);
    }
    if (grouped.empty()) return;
    for (int id : grouped) Group(id);
    constants_.DropRemoved(state_->Copied());
    state_->values.AddOwn(state_->Copied());
  }

 private:
  // Whether an activation follows its bias that TensorFlow fuses only into a Conv2D. No node that
  // the fused op replaces may have another use.
  bool HasActivationOfConv2D(int depthwise) const {
    if (!site_.HasOneReader(depthwise) || !site_.MayVanish(depthwise)) return false;
    const InputPort use = view_.fanout(depthwise)[0];
    if (use.index != 0 || !IsPart(depthwise, use.node, "BiasAdd")) return false;
    const absl::Span<const InputPort> uses = view_.fanout(use.node);
    if (uses.size() == 1) return Is(depthwise, uses[0].node, "LeakyRelu");
    if (uses.size() != 2) return false;
    return IsTimesItsGate(depthwise, uses[0].node, uses[1].node) ||
           IsTimesItsGate(depthwise, uses[1].node, uses[0].node);
  }

  // x * Sigmoid(x), where both nodes read x. Keras 2 writes Sigmoid(x * 1), which a session
  // simplifies, and a conversion does not; `activations` then writes it as Sigmoid(x).
  bool IsTimesItsGate(int depthwise, int gate, int product) const {
    if (IsTimesOne(depthwise, gate)) gate = view_.fanout(gate)[0].node;
    return IsPart(depthwise, gate, "Sigmoid") && Is(depthwise, product, "Mul") &&
           site_.HasOneReader(gate) && view_.fanout(gate)[0].node == product;
  }

  bool IsTimesOne(int depthwise, int id) const {
    if (!IsPart(depthwise, id, "Mul") || !site_.HasOneReader(id)) return false;
    const auto inputs = view_.fanin(id);
    return std::any_of(inputs.begin(), inputs.end(), [this](const OutputPort& input) {
      double number = 0;
      return site_.Number(input, &number) && number == 1;
    });
  }

  bool Is(int depthwise, int id, const char* op) const {
    return view_.op_def(id) != nullptr && view_.node(id).op() == op &&
           site_.AreAlike(depthwise, id);
  }
  bool IsPart(int depthwise, int id, const char* op) const {
    return Is(depthwise, id, op) && site_.MayVanish(id);
  }

  // The depthwise convolutions that must be grouped so that the Pad before them can be removed.
  std::vector<int> ThatReplace(int pad) const {
    std::vector<int64_t> amounts;
    if (!padding_.Reads(pad, &amounts)) return {};
    std::vector<int> to_group;
    for (const InputPort& use : view_.fanout(pad)) {
      const OwnPadding instead = padding_.Instead(pad, amounts, use);
      if (instead == OwnPadding::kNone) return {};
      if (instead == OwnPadding::kSame || view_.node(use.node).op() != kDepthwise) continue;
      if (!MayBecomeGrouped(use.node)) return {};
      to_group.push_back(use.node);
    }
    return to_group;
  }

  bool MayBecomeGrouped(int id) const {
    const NodeDef& node = view_.node(id);
    const DecideContext& context = state_->context;
    if (!IsPlainConvolution(node) || !site_.MayChange(id) ||
        KeptByMark(node, context, false) != Reason::kNone ||
        !context.support->HasOneDnn(node, context.mode.low_type)) {
      return false;
    }
    const std::vector<int> path = constants_.PathBack(view_.fanin(id)[1]);
    const TensorProto* filter = path.empty() ? nullptr : constants_.Value(path);
    return filter != nullptr && filter->tensor_shape().dim_size() == kFilterRank &&
           view_.IndexOf(absl::StrCat(node.name(), kFilterSuffix)) < 0;
  }

  void Group(int id) {
    GraphDef* graph = state_->Copied();
    const NodeDef& before = view_.node(id);
    const std::string name = absl::StrCat(before.name(), kFilterSuffix);
    const std::vector<int> path = constants_.PathBack(view_.fanin(id)[1]);
    AddFilter(name, *constants_.Value(path), view_.node(path.back()), graph);
    constants_.Release(path);
    NodeDef* node = graph->mutable_node(id);
    node->set_op("Conv2D");
    node->set_input(1, name);
    (*node->mutable_attr())["use_cudnn_on_gpu"].set_b(true);
    state_->rewrites.push_back({"grouped_convolutions", node->name(), kDepthwise, "Conv2D"});
  }

  // The elements of both filters have the same order. A constant in a loop is in its frame by its
  // control inputs.
  static void AddFilter(const std::string& name, const TensorProto& filter, const NodeDef& constant,
                        GraphDef* graph) {
    NodeDef* node = graph->add_node();
    node->set_name(name);
    node->set_op("Const");
    node->set_device(constant.device());
    *node->mutable_input() = constant.input();
    (*node->mutable_attr())["dtype"].set_type(filter.dtype());
    TensorProto* value = (*node->mutable_attr())["value"].mutable_tensor();
    *value = filter;
    auto* shape = value->mutable_tensor_shape();
    const int64_t channels = shape->dim(kChannels).size();
    shape->mutable_dim(kMultiplier)->set_size(channels * shape->dim(kMultiplier).size());
    shape->mutable_dim(kChannels)->set_size(1);
  }

  PassState* const state_;
  const GraphView& view_;
  const FusionSite site_;
  const ConvolutionPadding padding_;
  Constants constants_;
};

}  // namespace

tensorflow::Status GroupDepthwiseConvolutions(PassState* state, bool* changed) {
  const size_t rewrites = state->rewrites.size();
  const std::vector<int> depthwise = OpSet(state->view(), kDepthwise).Ids();
  if (!depthwise.empty()) Grouper(state).Run(depthwise);
  *changed = state->rewrites.size() != rewrites;
  return tensorflow::Status();
}

}  // namespace npu_precision
