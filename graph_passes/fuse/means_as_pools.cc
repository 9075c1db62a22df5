#include "graph_passes/fuse/means_as_pools.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph_passes/decide/kept_by_mark.h"
#include "graph_passes/fuse/fusion_site.h"
#include "graph_passes/graph/fused_ops.h"
#include "graph_passes/graph/op_set.h"
#include "graph_passes/rewrite/constants.h"
#include "tensorflow/core/framework/attr_value.pb.h"
#include "tensorflow/core/lib/core/errors.h"

namespace npu_precision {
namespace {

using tensorflow::NodeDef;
using tensorflow::PartialTensorShape;
using tensorflow::Status;

constexpr char kPoolSuffix[] = "/npu_pool";
// Dimensions of [batch, height, width, channels].
constexpr int kRank = 4, kHeight = 1, kWidth = 2;

void SetInts(const std::vector<int64_t>& values, tensorflow::AttrValue* attr) {
  for (int64_t value : values) attr->mutable_list()->add_i(value);
}

class PoolWriter {
 public:
  explicit PoolWriter(PassState* state)
      : state_(state),
        view_(state->view()),
        site_(*state),
        constants_(state->context, view_, &state->values) {}

  Status Run(const std::vector<int>& means) {
    for (int id : means) {
      bool gains = false;
      TF_RETURN_IF_ERROR(Gains(id, &gains));
      if (!gains) continue;
      const PartialTensorShape image = site_.Shape(view_.fanin(id)[0]);
      if (image.dims() != kRank || image.dim_size(kHeight) < 1 || image.dim_size(kWidth) < 1) {
        continue;
      }
      Write(id, image);
      has_written_ = true;
    }
    if (has_written_) constants_.DropRemoved(state_->Copied());
    return Status();
  }

 private:
  Status Gains(int id, bool* gains) const {
    const NodeDef& node = view_.node(id);
    const DecideContext& context = state_->context;
    *gains = false;
    if (!site_.MayChange(id) || KeptByMark(node, context, false) != Reason::kNone ||
        view_.outputs(id)[0].dtype != tensorflow::DT_FLOAT || !IsOverImages(id) ||
        !context.support->HasOneDnn(node, context.mode.low_type) ||
        view_.IndexOf(absl::StrCat(node.name(), kPoolSuffix)) >= 0) {
      return Status();
    }
    bool mean_may = false, pool_may = false, input_may = false;
    TF_RETURN_IF_ERROR(MayBeLowered(node, "Mean", &mean_may));
    TF_RETURN_IF_ERROR(MayBeLowered(node, "AvgPool", &pool_may));
    const NodeDef& before = view_.node(view_.fanin(id)[0].node);
    TF_RETURN_IF_ERROR(MayBeLowered(before, before.op(), &input_may));
    *gains = !mean_may && pool_may && input_may;
    return Status();
  }

  // Whether the lists let the node be lowered if it is this op.
  Status MayBeLowered(const NodeDef& node, const std::string& op, bool* may) const {
    const DecideContext& context = state_->context;
    Listing listing;
    TF_RETURN_IF_ERROR(context.lists->OfNode(NameInMixlist(node.name()), {op},
                                             context.support->KindOf(node), &listing));
    *may = listing.color == ListColor::kWhite || listing.color == ListColor::kGray;
    return Status();
  }

  bool IsOverImages(int id) const {
    std::vector<int64_t> axes;
    if (!site_.Integers(view_.fanin(id)[1], &axes)) return false;
    for (int64_t& axis : axes) axis += axis < 0 ? kRank : 0;
    std::sort(axes.begin(), axes.end());
    return axes == std::vector<int64_t>{kHeight, kWidth};
  }

  void Write(int id, const PartialTensorShape& image) {
    const NodeDef before = view_.node(id);
    const auto keep = before.attr().find("keep_dims");
    const bool keeps_rank = keep != before.attr().end() && keep->second.b();
    NodeDef* node = state_->Copied()->mutable_node(id);
    NodeDef* pool = node;
    if (!keeps_rank) {
      pool = state_->Copied()->add_node();
      pool->set_name(absl::StrCat(before.name(), kPoolSuffix));
      site_.Inherit(id, pool);
      node->clear_input();
      node->add_input(pool->name());
      node->set_op("Squeeze");
      SetInts({kHeight, kWidth}, &(*node->mutable_attr())["squeeze_dims"]);
    }
    BecomePool(before, image, pool);
    node->mutable_attr()->erase("keep_dims");
    node->mutable_attr()->erase("Tidx");
    state_->rewrites.push_back({"means_as_pools", before.name(), "Mean", "AvgPool"});
    const std::vector<int> axes = constants_.PathBack(view_.fanin(id)[1]);
    if (!axes.empty()) constants_.Release(axes);
  }

  static void BecomePool(const NodeDef& mean, const PartialTensorShape& image, NodeDef* pool) {
    pool->set_op("AvgPool");
    pool->clear_input();
    for (int i = 0; i < mean.input_size(); ++i) {
      if (i != 1) pool->add_input(mean.input(i));
    }
    auto& attr = *pool->mutable_attr();
    attr["T"] = mean.attr().at("T");
    attr["padding"].set_s("VALID");
    attr["data_format"].set_s("NHWC");
    SetInts({1, image.dim_size(kHeight), image.dim_size(kWidth), 1}, &attr["ksize"]);
    SetInts({1, 1, 1, 1}, &attr["strides"]);
  }

  PassState* const state_;
  const GraphView& view_;
  const FusionSite site_;
  Constants constants_;
  bool has_written_ = false;
};

}  // namespace

Status WriteMeansAsPools(PassState* state, bool* changed) {
  const size_t rewrites = state->rewrites.size();
  const std::vector<int> means = OpSet(state->view(), "Mean").Ids();
  Status status;
  if (!means.empty()) status = PoolWriter(state).Run(means);
  *changed = state->rewrites.size() != rewrites;
  return status;
}

}  // namespace npu_precision
