#include "graph_passes/fuse/sink_reshapes.h"

#include <algorithm>
#include <string>
#include <unordered_set>

#include "graph_passes/graph/control_inputs.h"
#include "graph_passes/graph/low_types.h"
#include "graph_passes/graph/node_attributes.h"
#include "graph_passes/graph/op_set.h"
#include "graph_passes/rewrite/constants.h"
#include "tensorflow/core/framework/tensor_shape.pb.h"

namespace npu_precision {
namespace {

using tensorflow::GraphDef;
using tensorflow::NodeDef;
using tensorflow::TensorShapeProto;

// A bound on the nodes that a Reshape sinks below; no activation has more.
constexpr size_t kMostBehind = 16;

bool ActsOnEachElement(const std::string& op) {
  static const auto* names = new std::unordered_set<std::string>{
      "Abs",       "Add",     "AddV2", "Elu",     "Erf",      "Erfc", "Exp",    "Identity",
      "LeakyRelu", "Maximum", "Mul",   "Minimum", "Neg",      "Pow",  "Relu",   "RealDiv",
      "Relu6",     "Rsqrt",   "Selu",  "Sigmoid", "Softplus", "Sqrt", "Square", "SquaredDifference",
      "Sub",       "Tanh"};
  return names->count(op) != 0;
}

class Sinker {
 public:
  explicit Sinker(PassState* state)
      : view_(state->view()),
        values_(state->values),
        context_(state->context),
        mat_muls_(view_, "MatMul"),
        reshapes_(view_, "Reshape"),
        bias_adds_(view_, "BiasAdd"),
        of_elements_(view_, ActsOnEachElement),
        graph_(*state->Editable()),
        sunk_(state->rewrites) {}

  void Run() {
    if (mat_muls_.IsEmpty() || reshapes_.IsEmpty() || bias_adds_.IsEmpty()) return;
    is_control_producer_ = ControlProducers(view_);
    for (int id = 0; id < view_.size(); ++id) {
      if (bias_adds_.Has(id)) SinkBefore(id);
      if (reshapes_.Has(id)) SinkBehind(id);
    }
  }

 private:
  void SinkBefore(int bias_add) {
    if (!MayChangeShape(bias_add)) return;
    const int reshape = view_.fanin(bias_add)[0].node;
    if (!reshapes_.Has(reshape) || !MayChangeShape(reshape) || !IsReadOnlyOnce(reshape)) {
      return;
    }
    // A node with a control dependency on the Reshape may be a producer of the nodes that it sinks
    // below.
    if (is_control_producer_[reshape]) return;
    const int mat_mul = view_.fanin(reshape)[0].node;
    if (!mat_muls_.Has(mat_mul) || !IsReadOnlyOnce(mat_mul)) return;
    if (!AreAlike(mat_mul, reshape) || !AreAlike(mat_mul, bias_add)) return;
    if (AreAsWide(mat_mul, bias_add)) Sink(mat_mul, reshape, Above(bias_add));
  }

  // For a bias that is before the Reshape already.
  void SinkBehind(int reshape) {
    if (!MayChangeShape(reshape) || is_control_producer_[reshape]) return;
    const int bias_add = view_.fanin(reshape)[0].node;
    if (!bias_adds_.Has(bias_add) || !IsReadOnlyOnce(bias_add) || !AreAlike(bias_add, reshape)) {
      return;
    }
    const int mat_mul = view_.fanin(bias_add)[0].node;
    if (!mat_muls_.Has(mat_mul) || !IsReadOnlyOnce(mat_mul)) return;
    const std::vector<int> above = Above(reshape);
    if (above.size() > 1) Sink(bias_add, reshape, above);
  }

  bool IsReadOnlyOnce(int id) const { return view_.fanout(id).size() == 1; }

  bool MayChangeShape(int id) const {
    return view_.op_def(id) != nullptr && view_.num_outputs(id) == 1 &&
           IsLowType(view_.outputs(id)[0].dtype) && !HasControlInputs(view_, id) &&
           !context_.IsFixed(view_.node(id).name());
  }

  bool AreAlike(int a, int b) const {
    return view_.outputs(a)[0].dtype == view_.outputs(b)[0].dtype &&
           view_.node(a).device() == view_.node(b).device();
  }

  // In a valid graph, the last dimension of the Reshape then has the same width.
  bool AreAsWide(int mat_mul, int bias_add) const {
    const TensorShapeProto* weights = ShapeOf(view_.fanin(mat_mul)[1]);
    const TensorShapeProto* bias = ShapeOf(view_.fanin(bias_add)[1]);
    if (weights == nullptr || weights->dim_size() != 2 || bias == nullptr ||
        bias->dim_size() != 1) {
      return false;
    }
    const int width = IsTransposed(view_.node(mat_mul), 1) ? 0 : 1;
    return weights->dim(width).size() == bias->dim(0).size() &&
           HasChannelsLast(view_.node(bias_add));
  }

  // Makes the nodes `above` read `below`, and the Reshape read the last of them. `above` may begin
  // with the Reshape itself.
  void Sink(int below, int reshape, const std::vector<int>& above) {
    const int last = above.back();
    const std::string& name = view_.node(reshape).name();
    for (const InputPort& use : view_.fanout(last)) {
      graph_.mutable_node(use.node)->set_input(use.index, name);
    }
    for (const InputPort& use : view_.fanout(reshape)) {
      graph_.mutable_node(use.node)->set_input(use.index, view_.node(below).name());
    }
    graph_.mutable_node(reshape)->set_input(0, view_.node(last).name());
    for (int id : above) graph_.mutable_node(id)->mutable_attr()->erase("_output_shapes");
    graph_.mutable_node(reshape)->mutable_attr()->erase("_output_shapes");
    sunk_.push_back({"sink_reshapes", name, view_.node(below).name(), view_.node(last).name()});
  }

  // `first`, a BiasAdd or a Reshape, and the other nodes that the Reshape sinks below. Only the
  // last node may have readers outside.
  std::vector<int> Above(int first) const {
    std::vector<int> above = {first};
    size_t settled = 1;
    for (int next = Next(above); next >= 0 && above.size() < kMostBehind; next = Next(above)) {
      above.push_back(next);
      if (OnlyLastLeadsOut(above)) settled = above.size();
    }
    above.resize(settled);
    return above;
  }

  // A reader of `above` whose other inputs are single numbers, or -1.
  int Next(const std::vector<int>& above) const {
    for (int id : above) {
      for (const InputPort& use : view_.fanout(id)) {
        if (!Contains(above, use.node) && MayFollow(above, use.node)) return use.node;
      }
    }
    return -1;
  }

  bool MayFollow(const std::vector<int>& above, int id) const {
    if (!of_elements_.Has(id) || !MayChangeShape(id) || !AreAlike(id, above[0])) return false;
    // A node without consumers is left out: whether it is added would depend on the order of the
    // nodes.
    if (view_.fanout(id).size() == 0) return false;
    const absl::Span<const OutputPort> inputs = view_.fanin(id);
    return std::all_of(inputs.begin(), inputs.end(), [&](const OutputPort& input) {
      return Contains(above, input.node) || IsNumber(input);
    });
  }

  const TensorShapeProto* ShapeOf(const OutputPort& tensor) const {
    return ShapeOfConstant(view_, values_, context_.fed, tensor);
  }

  bool IsNumber(const OutputPort& tensor) const {
    const TensorShapeProto* shape = ShapeOf(tensor);
    return shape != nullptr && !shape->unknown_rank() && shape->dim_size() == 0;
  }

  bool OnlyLastLeadsOut(const std::vector<int>& above) const {
    return std::all_of(above.begin(), above.end() - 1, [&](int id) {
      const absl::Span<const InputPort> uses = view_.fanout(id);
      return std::all_of(uses.begin(), uses.end(),
                         [&](const InputPort& use) { return Contains(above, use.node); });
    });
  }

  static bool Contains(const std::vector<int>& ids, int id) {
    return std::find(ids.begin(), ids.end(), id) != ids.end();
  }

  const GraphView& view_;
  const ConstantValues& values_;
  const DecideContext& context_;
  const OpSet mat_muls_, reshapes_, bias_adds_, of_elements_;
  std::vector<bool> is_control_producer_;
  GraphDef& graph_;
  std::vector<RewriteEntry>& sunk_;
};

}  // namespace

tensorflow::Status SinkReshapes(PassState* state, bool* changed) {
  const size_t rewrites = state->rewrites.size();
  Sinker(state).Run();
  *changed = state->rewrites.size() != rewrites;
  return tensorflow::Status();
}

}  // namespace npu_precision
