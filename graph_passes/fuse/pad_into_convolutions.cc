#include "graph_passes/fuse/pad_into_convolutions.h"

#include <string>
#include <vector>

#include "graph_passes/fuse/convolution_padding.h"
#include "graph_passes/graph/op_set.h"
#include "graph_passes/rewrite/cast_nodes.h"
#include "graph_passes/rewrite/constants.h"
#include "tensorflow/core/framework/attr_value.pb.h"

namespace npu_precision {
namespace {

using tensorflow::NodeDef;

bool IsPad(const std::string& op) { return op == "Pad" || op == "PadV2"; }
bool IsConvolution(const std::string& op) {
  return op == "Conv2D" || op == "DepthwiseConv2dNative";
}

class PadFolder {
 public:
  explicit PadFolder(PassState* state)
      : state_(state),
        view_(state->view()),
        site_(*state),
        padding_(view_, site_),
        constants_(state->context, view_, &state->values) {}

  void Run(const OpSet& pads) {
    for (int id : pads.Ids()) {
      std::vector<int64_t> amounts;
      if (view_.fanout(id).size() == 0 || !padding_.Reads(id, &amounts)) continue;
      std::vector<OwnPadding> own;
      for (const InputPort& use : view_.fanout(id)) {
        const OwnPadding instead = padding_.Instead(id, amounts, use);
        const bool is_depthwise = view_.node(use.node).op() != "Conv2D";
        if (instead == OwnPadding::kNone) break;
        if (instead == OwnPadding::kExplicit && is_depthwise) break;
        own.push_back(instead);
      }
      if (own.size() != view_.fanout(id).size()) continue;
      Fold(id, amounts, own);
      has_folded_ = true;
    }
    if (has_folded_) constants_.DropRemoved(state_->Copied());
  }

 private:
  void Fold(int pad, const std::vector<int64_t>& amounts, const std::vector<OwnPadding>& own) {
    const OutputPort image = view_.fanin(pad)[0];
    for (size_t i = 0; i < own.size(); ++i) {
      NodeDef* node = state_->Copied()->mutable_node(view_.fanout(pad)[i].node);
      node->set_input(0, InputName(view_.node(image.node).name(), image.port));
      const char* padding = own[i] == OwnPadding::kSame ? "SAME" : "EXPLICIT";
      (*node->mutable_attr())["padding"].set_s(padding);
      if (own[i] == OwnPadding::kExplicit) {
        auto* written = (*node->mutable_attr())["explicit_paddings"].mutable_list()->mutable_i();
        written->Clear();
        for (int64_t amount : amounts) written->Add(amount);
      }
      state_->rewrites.push_back(
          {"pad_into_convolutions", node->name(), view_.node(pad).name(), padding});
      constants_.Release({pad});
    }
    for (size_t i = 1; i < view_.fanin(pad).size(); ++i) {
      const std::vector<int> path = constants_.PathBack(view_.fanin(pad)[i]);
      if (!path.empty()) constants_.Release(path);
    }
  }

  PassState* const state_;
  const GraphView& view_;
  const FusionSite site_;
  const ConvolutionPadding padding_;
  Constants constants_;
  bool has_folded_ = false;
};

}  // namespace

tensorflow::Status PadIntoConvolutions(PassState* state, bool* changed) {
  const size_t rewrites = state->rewrites.size();
  const OpSet pads(state->view(), IsPad);
  if (!pads.IsEmpty() && !OpSet(state->view(), IsConvolution).IsEmpty()) {
    PadFolder(state).Run(pads);
  }
  *changed = state->rewrites.size() != rewrites;
  return tensorflow::Status();
}

}  // namespace npu_precision
