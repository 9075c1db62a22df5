#include "graph_passes/analysis/fused_later.h"

#include <algorithm>

#include "graph_passes/graph/op_set.h"
#include "graph_passes/graph/op_traits.h"

namespace npu_precision {
namespace {

// The exact GELU of Keras 3 has the most nodes of all activations.
constexpr size_t kMostNodes = 12;

bool MayHeadFusion(const std::string& op) {
  return Convolves(op) || MultipliesMatrices(op) || IsBatchNorm(op);
}

bool IsActivation(const std::string& op, const std::string& product) {
  if (op == "Relu" || op == "Relu6" || op == "Elu") return true;
  if (op == "LeakyRelu") return product != "DepthwiseConv2dNative";
  return MultipliesMatrices(product) && (op == "Tanh" || op == "Sigmoid");
}

class Finder {
 public:
  Finder(const GraphView& view, const std::set<std::string>& fixed) : view_(view), fixed_(fixed) {
    found_.assign(view.size(), false);
  }

  std::vector<bool> Run() {
    for (int id : OpSet(view_, MayHeadFusion).Ids()) {
      IsBatchNorm(view_.node(id).op()) ? BehindNorm(id) : BehindProduct(id);
    }
    for (int id : OpSet(view_, "Sigmoid").Ids()) InSwish(id);
    return std::move(found_);
  }

 private:
  // The only input that reads the node's first output; an input of node -1 if there is none, or the
  // caller reads the node too. Other outputs of a batch norm are statistics.
  InputPort OnlyReader(int id) const {
    const auto uses = view_.fanout({id, 0});
    if (uses.size() != 1 || fixed_.count(view_.node(id).name()) != 0) return {-1, 0};
    return uses[0];
  }

  bool Is(int id, const char* op) const { return id >= 0 && view_.node(id).op() == op; }

  // Whether all other inputs of the node are constants or weights, perhaps reshaped.
  bool ReadsOnlyWeightsBeside(int id, int index) const {
    const auto inputs = view_.fanin(id);
    for (int k = 0; k < static_cast<int>(inputs.size()); ++k) {
      if (k == index) continue;
      const OutputPort from = view_.LookThrough(inputs[k], [this](int at) {
        const std::string& op = view_.node(at).op();
        return view_.num_fanin(at) > 0 &&
               (op == "Identity" || op == "Cast" || op == "Reshape" || view_.IsTransparent(at));
      });
      if (!YieldsWeight(view_.node(from.node).op())) return false;
    }
    return true;
  }

  void BehindProduct(int product) {
    const std::string& op = view_.node(product).op();
    const bool is_batched = MultipliesMatrices(op) && op != "MatMul";
    InputPort next = OnlyReader(product);
    // sink_reshapes moves it behind the fused nodes.
    const int reshape = op == "MatMul" && Is(next.node, "Reshape") ? next.node : -1;
    if (reshape >= 0) next = OnlyReader(reshape);
    if (next.node < 0) return;
    const std::string& first = view_.node(next.node).op();
    const bool is_bias =
        !is_batched && (Is(next.node, "BiasAdd") ||
                        (AddsTensors(first) && ReadsOnlyWeightsBeside(next.node, next.index)));
    const bool is_scale = is_batched && Is(next.node, "Mul");
    if (!is_bias && !is_scale && !(Convolves(op) && IsBatchNorm(first))) return;
    if (reshape >= 0) found_[reshape] = true;
    int at = next.node;
    found_[at] = true;
    next = OnlyReader(at);
    if (next.node >= 0 && AddsTensors(view_.node(next.node).op())) {
      at = next.node;
      found_[at] = true;
      next = OnlyReader(at);
    }
    if (is_batched) return;
    if (next.node >= 0 && IsActivation(view_.node(next.node).op(), op)) found_[next.node] = true;
    if (next.node < 0) InActivation(at);
  }

  void BehindNorm(int norm) {
    for (InputPort next = OnlyReader(norm); next.node >= 0; next = OnlyReader(next.node)) {
      if (found_[next.node]) return;  // a damaged graph may have a cycle here
      const std::string& op = view_.node(next.node).op();
      const bool is_weighted =
          (Multiplies(op) || AddsTensors(op)) && ReadsOnlyWeightsBeside(next.node, next.index);
      const bool goes_on = is_weighted || op == "Reshape";
      if (goes_on || op == "Relu") found_[next.node] = true;
      if (!goes_on) return;
    }
  }

  // Nodes that compute only of `from`, up to the one that alone is read by others.
  void InActivation(int from) {
    if (fixed_.count(view_.node(from).name()) != 0) return;
    std::set<int> inside = {from};
    std::vector<int> open = {from};
    for (size_t i = 0; i < open.size() && open.size() <= kMostNodes; ++i) {
      for (const InputPort& use : view_.fanout(open[i])) {
        if (inside.count(use.node) != 0 || !ComputesOf(use.node, inside)) continue;
        inside.insert(use.node);
        open.push_back(use.node);
        if (HasOneExit(inside)) {
          for (int id : inside) found_[id] = true;
          return;
        }
      }
    }
  }

  bool ComputesOf(int id, const std::set<int>& inside) const {
    if (!IsElementwise(view_.node(id).op())) return false;
    const auto inputs = view_.fanin(id);
    return std::all_of(inputs.begin(), inputs.end(), [&](const OutputPort& input) {
      return inside.count(input.node) != 0 || YieldsWeight(view_.node(input.node).op());
    });
  }

  bool HasOneExit(const std::set<int>& inside) const {
    int exits = 0;
    for (int id : inside) {
      const auto uses = view_.fanout(id);
      const bool is_exit = fixed_.count(view_.node(id).name()) != 0 ||
                           std::any_of(uses.begin(), uses.end(), [&](const InputPort& use) {
                             return inside.count(use.node) == 0;
                           });
      exits += is_exit ? 1 : 0;
    }
    return exits == 1;
  }

  void InSwish(int gate) {
    const InputPort next = OnlyReader(gate);
    if (!Is(next.node, "Mul")) return;
    const OutputPort other = view_.fanin(next.node)[1 - next.index];
    if (other == view_.fanin(gate)[0]) found_[gate] = found_[next.node] = true;
  }

  const GraphView& view_;
  const std::set<std::string>& fixed_;
  std::vector<bool> found_;
};

}  // namespace

std::vector<bool> FusedLater(const GraphView& view, const std::set<std::string>& fixed) {
  return Finder(view, fixed).Run();
}

}  // namespace npu_precision
