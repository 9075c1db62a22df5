#include "graph_passes/fuse/squeeze_masks.h"

#include <string>
#include <vector>

#include "graph_passes/fuse/flat_nodes.h"
#include "graph_passes/fuse/fusion_site.h"
#include "graph_passes/graph/constant_values.h"
#include "graph_passes/graph/op_set.h"
#include "graph_passes/graph/op_traits.h"
#include "graph_passes/rewrite/changed_graph.h"

namespace npu_precision {
namespace {

using tensorflow::NodeDef;
using tensorflow::PartialTensorShape;

constexpr char kProduct[] = "BatchMatMulV2";
// Dimensions of [batch, heads, rows, columns].
constexpr int kRank = 4, kBatch = 0, kHeads = 1, kRows = 2;

struct Site {
  int sum = -1;
  int mask = -1;  // the index of the input
};

class MaskSqueezer {
 public:
  explicit MaskSqueezer(PassState* state) : state_(*state), view_(state->view()), site_(*state) {}

  bool Run() {
    std::vector<Site> sites;
    for (int sum : InOrderOfNames(view_, OpSet(view_, AddsTensors).Ids())) {
      if (view_.num_fanin(sum) != 2 || !site_.MayChange(sum)) continue;
      for (int mask : {0, 1}) {
        const Site found = {sum, mask};
        if (!IsSlow(found)) continue;
        sites.push_back(found);
        break;
      }
    }
    if (sites.empty()) return false;
    tensorflow::GraphDef* out = state_.NewGraph();
    CopyWithoutValues(state_.graph(), out);
    FlatNodes nodes(view_, site_, out);
    for (const Site& found : sites) Write(found, &nodes, out);
    return true;
  }

 private:
  bool IsSlow(const Site& found) const {
    const OutputPort mask = view_.fanin(found.sum)[found.mask];
    const OutputPort product = view_.fanin(found.sum)[1 - found.mask];
    if (!IsScaledProduct(product.node) || !MaySqueeze(mask)) return false;
    const PartialTensorShape of_mask = site_.Shape(mask);
    if (of_mask.dims() != kRank || of_mask.dim_size(kBatch) != 1 || of_mask.dim_size(kHeads) != 1 ||
        of_mask.dim_size(kRows) == 1) {
      return false;
    }
    const PartialTensorShape of_product = site_.Shape(product);
    return of_product.dims() == kRank && of_product.dim_size(kBatch) != 1;
  }

  // TensorFlow moves a scale from an operand of a product behind it, but possibly only after this
  // pass.
  bool IsScaledProduct(int id) const {
    const std::string& op = view_.node(id).op();
    if (op == kProduct) return true;
    if (!Multiplies(op) && !Divides(op)) return false;
    for (const OutputPort& operand : view_.fanin(id)) {
      if (view_.node(operand.node).op() == kProduct) return true;
    }
    return false;
  }

  // Whether no file of the user names the Squeeze.
  bool MaySqueeze(const OutputPort& mask) const {
    NodeDef node;
    node.set_name(FlatNodes::SqueezeName(view_, mask, {kBatch, kHeads}));
    node.set_op("Squeeze");
    return site_.MayAdd(node);
  }

  void Write(const Site& found, FlatNodes* nodes, tensorflow::GraphDef* out) const {
    const OutputPort mask = view_.fanin(found.sum)[found.mask];
    nodes->Begin(found.sum, mask.node);
    const std::string squeeze = nodes->Squeeze(mask, {kBatch, kHeads});
    *out->mutable_node(found.sum)->mutable_input(found.mask) = squeeze;
    state_.rewrites.push_back(
        {"squeeze_masks", view_.node(found.sum).name(), TensorName(view_, mask), squeeze});
  }

  PassState& state_;
  const GraphView& view_;
  const FusionSite site_;
};

}  // namespace

tensorflow::Status SqueezeMasks(PassState* state, bool* changed) {
  *changed = !OpSet(state->view(), kProduct).IsEmpty() && MaskSqueezer(state).Run();
  return tensorflow::Status();
}

}  // namespace npu_precision
