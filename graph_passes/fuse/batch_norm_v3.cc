#include "graph_passes/fuse/batch_norm_v3.h"

#include <string>
#include <vector>

#include "graph_passes/decide/kept_by_mark.h"
#include "graph_passes/graph/constant_values.h"
#include "graph_passes/graph/fused_ops.h"
#include "graph_passes/graph/op_set.h"
#include "graph_passes/rewrite/cast_nodes.h"
#include "graph_passes/rewrite/changed_graph.h"
#include "tensorflow/core/framework/attr_value.pb.h"
#include "tensorflow/core/lib/core/errors.h"

namespace npu_precision {
namespace {

using tensorflow::GraphDef;
using tensorflow::NodeDef;
using tensorflow::Status;

constexpr int kNone = -1;
// Inputs 3 and 4 of the forward op are the given statistics. Its outputs 3 and 4 are those for the
// gradient, which reads either pair as its inputs 3 and 4. Only version 3 has output 5, and input 5
// of its gradient.
constexpr int kMean = 3, kVariance = 4, kReserved = 5;

bool IsForward(const std::string& op) { return op == "FusedBatchNorm"; }
bool IsGradient(const std::string& op) { return op == "FusedBatchNormGrad"; }

class BatchNormWriter {
 public:
  BatchNormWriter(const GraphView& view, const DecideContext& context)
      : view_(view),
        context_(context),
        forwards_(view, IsForward),
        gradients_(view, IsGradient),
        becomes_v3_(view.size(), false) {}

  bool IsNeeded() const { return !forwards_.IsEmpty(); }

  Status Run(PassState* state, bool* changed) {
    for (int id = 0; id < view_.size(); ++id) {
      if (!forwards_.Has(id)) continue;
      bool may_change = false;
      TF_RETURN_IF_ERROR(MayChange(id, &may_change));
      becomes_v3_[id] = may_change;
      *changed |= may_change;
    }
    if (!*changed) return Status();
    GraphDef* out = state->NewGraph();
    CopyWithoutValues(state->graph(), out);
    for (int id = 0; id < view_.size(); ++id) {
      if (becomes_v3_[id]) Write(id, kNone, out, &state->rewrites);
      if (!gradients_.Has(id)) continue;
      const int forward = ForwardOf(id);
      bool may_change = false;
      if (forward != kNone) TF_RETURN_IF_ERROR(MayChange(id, &may_change));
      if (may_change) Write(id, forward, out, &state->rewrites);
    }
    return Status();
  }

 private:
  // Whether the caller, the lists and the device allow the node to be lowered.
  Status MayChange(int id, bool* may_change) const {
    *may_change = false;
    const NodeDef& node = view_.node(id);
    if (context_.IsFixed(node.name())) return Status();
    if (KeptByMark(node, context_, false) != Reason::kNone) return Status();
    NodeDef lowered = node;
    BecomeV3(&lowered);
    (*lowered.mutable_attr())["T"].set_type(context_.mode.low_type);
    const DeviceKind device = context_.support->KindOf(node);
    Listing before, after;
    TF_RETURN_IF_ERROR(
        context_.lists->OfNode(NameInMixlist(node.name()), {node.op()}, device, &before));
    TF_RETURN_IF_ERROR(
        context_.lists->OfNode(NameInMixlist(node.name()), {lowered.op()}, device, &after));
    const bool is_kept = after.color == ListColor::kUnlisted ||
                         (after.color == ListColor::kBlack && context_.mode.rule == ModeRule::kMix);
    *may_change =
        before.color == after.color && !is_kept && context_.support->CanRun(node, lowered);
    return Status();
  }

  // The forward op of a gradient, if it becomes version 3; otherwise kNone.
  int ForwardOf(int gradient) const {
    const auto inputs = view_.fanin(gradient);
    const auto training = view_.node(gradient).attr().find("is_training");
    if (training == view_.node(gradient).attr().end() || training->second.b()) {
      const int forward = inputs[kMean].node;
      const bool reads = inputs[kMean] == OutputPort{forward, kMean} &&
                         inputs[kVariance] == OutputPort{forward, kVariance};
      return reads && becomes_v3_[forward] ? forward : kNone;
    }
    for (const InputPort& use : view_.fanout(inputs[1])) {
      if (!becomes_v3_[use.node]) continue;
      const auto of_forward = view_.fanin(use.node);
      if (inputs[kMean] == of_forward[kMean] && inputs[kVariance] == of_forward[kVariance]) {
        return use.node;
      }
    }
    return kNone;
  }

  static void BecomeV3(NodeDef* node) {
    node->set_op(node->op() + "V3");
    (*node->mutable_attr())["U"].set_type(tensorflow::DT_FLOAT);
  }

  void Write(int id, int forward, GraphDef* out, std::vector<RewriteEntry>* rewrites) const {
    NodeDef* node = out->mutable_node(id);
    BecomeV3(node);
    // The attribute has five outputs, and the forward op now has six.
    node->mutable_attr()->erase("_output_shapes");
    ForgetFullType(node);
    if (forward != kNone) {
      // Data inputs stand before control inputs.
      node->add_input(InputName(view_.node(forward).name(), kReserved));
      for (int k = node->input_size() - 1; k > kReserved; --k) {
        node->mutable_input()->SwapElements(k, k - 1);
      }
    }
    rewrites->push_back({"batch_norm_v3", node->name(), view_.node(id).op(), node->op()});
  }

  const GraphView& view_;
  const DecideContext& context_;
  const OpSet forwards_, gradients_;
  std::vector<bool> becomes_v3_;  // by node id, of forward ops
};

}  // namespace

Status WriteBatchNormsAsV3(PassState* state, bool* changed) {
  *changed = false;
  BatchNormWriter writer(state->view(), state->context);
  return writer.IsNeeded() ? writer.Run(state, changed) : Status();
}

}  // namespace npu_precision
