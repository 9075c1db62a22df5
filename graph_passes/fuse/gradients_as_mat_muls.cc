#include "graph_passes/fuse/gradients_as_mat_muls.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph_passes/decide/kept_by_mark.h"
#include "graph_passes/fuse/flat_nodes.h"
#include "graph_passes/fuse/fusion_site.h"
#include "graph_passes/graph/node_attributes.h"
#include "graph_passes/graph/op_set.h"
#include "tensorflow/core/framework/attr_value.pb.h"
#include "tensorflow/core/framework/tensor_shape.h"

namespace npu_precision {
namespace {

using tensorflow::NodeDef;
using tensorflow::PartialTensorShape;

constexpr char kPass[] = "gradients_as_mat_muls", kOfFilter[] = "Conv2DBackpropFilter";
// The most rows of the product. Measured on two cores with avx512_bf16, TensorFlow 2.15 and 2.21,
// for 16 to 2048 channels: up to here the product takes 0.2 to 1.0 of the time. It takes up to 1.13
// for three times as many rows, and a filter's up to 2.4 for more.
constexpr int64_t kMostOfFilter = 8192, kMostOfInput = 512;
// A batch of unknown size counts as so many images.
constexpr int64_t kUsualBatch = 32;
// Dimensions of [batch, height, width, channels]; a filter is [height, width, channels, outputs].
constexpr int kRank = 4, kBatch = 0, kHeight = 1, kWidth = 2, kLast = 3, kChannels = 2;

bool IsGradient(const std::string& op) { return op == kOfFilter || op == "Conv2DBackpropInput"; }

// Whether the convolution takes each pixel once and adds none around the image.
bool TakesEachPixel(const NodeDef& node) {
  const auto strides = node.attr().find("strides"), padding = node.attr().find("padding");
  if (strides == node.attr().end() || padding == node.attr().end()) return false;
  const auto& steps = strides->second.list().i();
  return padding->second.s() != "EXPLICIT" &&
         std::all_of(steps.begin(), steps.end(), [](int64_t step) { return step == 1; });
}

class Writer {
 public:
  explicit Writer(PassState* state) : state_(*state), view_(state->view()), site_(*state) {}

  void Run(const std::vector<int>& gradients) {
    FlatNodes nodes(view_, site_, state_.Editable());
    for (int id : gradients) {
      if (MayRewrite(id) && IsOfSmallImages(id)) Write(id, &nodes);
    }
  }

 private:
  bool IsOfFilter(int id) const { return view_.node(id).op() == kOfFilter; }
  OutputPort SizesOf(int id) const { return view_.fanin(id)[IsOfFilter(id) ? 1 : 0]; }
  OutputPort GradientOf(int id) const { return view_.fanin(id)[2]; }
  // The image, or the filter.
  OutputPort OtherOf(int id) const { return view_.fanin(id)[IsOfFilter(id) ? 0 : 1]; }

  bool MayRewrite(int id) const {
    const NodeDef& node = view_.node(id);
    return view_.op_def(id) != nullptr && view_.num_fanin(id) == 3 &&
           view_.outputs(id)[0].dtype == tensorflow::DT_BFLOAT16 && TakesEachPixel(node) &&
           HasChannelsLast(node) && site_.MayBecome(id, "MatMul") &&
           KeptByMark(node, state_.context, false) == Reason::kNone &&
           state_.context.support->HasOneDnn(node, tensorflow::DT_BFLOAT16);
  }

  bool IsOfSmallImages(int id) const {
    const bool of_filter = IsOfFilter(id);
    const PartialTensorShape result = site_.Shape({id, 0}), other = ShapeBeforeCast(OtherOf(id));
    const PartialTensorShape& filter = of_filter ? result : other;
    const PartialTensorShape& image = of_filter ? other : result;
    if (!filter.IsFullyDefined() || filter.dims() != kRank || filter.dim_size(0) != 1 ||
        filter.dim_size(1) != 1) {
      return false;
    }
    // A filter of several groups has fewer channels than the image.
    if (image.dims() != kRank || image.dim_size(kLast) != filter.dim_size(kChannels)) return false;
    const int64_t height = image.dim_size(kHeight), width = image.dim_size(kWidth);
    const int64_t batch = image.dim_size(kBatch) < 0 ? kUsualBatch : image.dim_size(kBatch);
    return height > 0 && width > 0 && IsGradientOf(image, ShapeBeforeCast(GradientOf(id))) &&
           batch * height * width <= (of_filter ? kMostOfFilter : kMostOfInput);
  }

  // Whether the sizes agree. Else, a product of as many rows would hide the mistake.
  static bool IsGradientOf(const PartialTensorShape& image, const PartialTensorShape& dy) {
    return dy.dims() == kRank && dy.dim_size(kHeight) == image.dim_size(kHeight) &&
           dy.dim_size(kWidth) == image.dim_size(kWidth);
  }

  // The shape of a tensor, also behind a Cast that insert_casts added.
  PartialTensorShape ShapeBeforeCast(const OutputPort& tensor) const {
    return site_.Shape(view_.LookThroughInserted(tensor));
  }

  void Write(int id, FlatNodes* nodes) {
    const bool of_filter = IsOfFilter(id);
    const OutputPort other = OtherOf(id), dy = GradientOf(id), sizes = SizesOf(id);
    const std::string name = view_.node(id).name(), op = view_.node(id).op();
    const PartialTensorShape of_other = ShapeBeforeCast(other);
    const int64_t channels = of_other.dim_size(kLast);
    const int64_t outputs = of_filter ? site_.Shape({id, 0}).dim_size(kLast) : channels;
    nodes->Begin(id, dy.node);
    const std::string first = of_filter ? nodes->Rows(other, channels) : nodes->Rows(dy, outputs);
    const std::string second = nodes->Rows(of_filter ? dy : other, outputs);
    NodeDef* product = nodes->Add(absl::StrCat(name, "/npu_mat_mul"), "MatMul");
    product->add_input(first);
    product->add_input(second);
    (*product->mutable_attr())["T"].set_type(tensorflow::DT_BFLOAT16);
    (*product->mutable_attr())["transpose_a"].set_b(of_filter);
    (*product->mutable_attr())["transpose_b"].set_b(!of_filter);
    NodeDef* node = state_.Editable()->mutable_node(id);
    ReplaceOp(site_, id, "Reshape", {product->name(), TensorName(view_, sizes)}, node);
    (*node->mutable_attr())["T"].set_type(tensorflow::DT_BFLOAT16);
    (*node->mutable_attr())["Tshape"].set_type(view_.dtype(sizes));
    state_.rewrites.push_back({kPass, name, op, "MatMul"});
  }

  PassState& state_;
  const GraphView& view_;
  const FusionSite site_;
};

}  // namespace

tensorflow::Status WriteGradientsAsMatMuls(PassState* state, bool* changed) {
  const size_t rewrites = state->rewrites.size();
  const std::vector<int> gradients = OpSet(state->view(), IsGradient).Ids();
  if (!gradients.empty()) Writer(state).Run(gradients);
  *changed = state->rewrites.size() != rewrites;
  return tensorflow::Status();
}

}  // namespace npu_precision
