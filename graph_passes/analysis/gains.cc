#include "graph_passes/analysis/gains.h"

#include <unordered_set>

#include "graph_passes/analysis/varying_nodes.h"
#include "graph_passes/graph/op_traits.h"

namespace npu_precision {
namespace {

// A sum that keeps 0.9 of itself each time has the weight of ten terms, so errors fade.
constexpr double kForgets = 0.9;

constexpr int kAll = 1 << 20;

// The op's values vary from iteration to iteration, like those of a gate or a layer of a model.
bool IsOfModel(const std::string& op) {
  static const auto* names = new std::unordered_set<std::string>{"Sigmoid", "Tanh", "Softmax",
                                                                 "Softsign", "FusedBatchNormV3"};
  return names->count(op) != 0 || IsMatrixOrConvolution(op) || HasElementDtype(op);
}

// Of the activations, those that yield a value with a gain of 1.
bool Activates(const std::string& op) { return op == "Relu" || op == "Relu6"; }

}  // namespace

Gains::Gains(const GraphView& view, const std::vector<ValueRange>& ranges,
             const std::set<std::string>& fed, const std::vector<bool>& ends_path)
    : view_(view),
      ranges_(ranges),
      varies_(VaryingNodes(view, fed)),
      ends_path_(ends_path),
      moves_values_(view, MovesValues),
      multiplies_(view, Multiplies),
      divides_(view, Divides),
      of_model_(view, IsOfModel),
      signs_(view, "Sign"),
      products_(view, IsMatrixOrConvolution),
      activates_(view, Activates),
      forgets_(view.size(), Known::kNo),
      grows_(view.size(), false) {
  for (int op = 0; op < view.num_ops(); ++op) {
    const auto found = Table().find(view.op_numbered(op).name);
    of_op_.push_back(found == Table().end() ? Yields{Path::kEnds, 0, -1} : found->second);
  }
}

const std::unordered_map<std::string, Gains::Yields>& Gains::Table() {
  static const auto* table = new std::unordered_map<std::string, Yields>{
      {"Add", {Path::kAdds, 0, 1}},
      {"AddV2", {Path::kAdds, 0, 1}},
      {"AddN", {Path::kAdds, 0, kAll}},
      {"Sub", {Path::kAdds, 0, 1}},
      {"BiasAdd", {Path::kAdds, 0, 0}},
      {"Sum", {Path::kAdds, 0, 0}},
      {"Cumsum", {Path::kAdds, 0, 0}},
      {"TensorScatterAdd", {Path::kAdds, 0, 0}},
      {"TensorScatterSub", {Path::kAdds, 0, 0}},

      {"Square", {Path::kAdds, 0, 0}},
      {"Neg", {Path::kYields, 0, 0}},
      {"Abs", {Path::kYields, 0, 0}},
      {"Relu", {Path::kYields, 0, 0}},
      {"Relu6", {Path::kYields, 0, 0}},
      {"ClipByValue", {Path::kYields, 0, 0}},
      {"Maximum", {Path::kYields, 0, 1}},
      {"Minimum", {Path::kYields, 0, 1}},
      {"Max", {Path::kYields, 0, 0}},
      {"Min", {Path::kYields, 0, 0}},
      {"Mean", {Path::kYields, 0, 0}},
      {"Select", {Path::kYields, 1, 2}},
      {"SelectV2", {Path::kYields, 1, 2}},
      {"Slice", {Path::kYields, 0, 0}},
      {"StridedSlice", {Path::kYields, 0, 0}},
      {"GatherV2", {Path::kYields, 0, 0}},
      {"GatherNd", {Path::kYields, 0, 0}},
      {"Pack", {Path::kYields, 0, kAll}},
      {"ConcatV2", {Path::kYields, 0, kAll}},
      {"TensorScatterUpdate", {Path::kYields, 0, 2}},
  };
  return *table;
}

Path Gains::PathInto(const InputPort& use) {
  const int id = use.node;
  if (view_.op_def(id) == nullptr || ends_path_[id]) return Path::kEnds;
  if (moves_values_.Has(id)) return IsValue(use) ? Path::kYields : Path::kEnds;
  if (view_.IsTransparent(id)) return Path::kYields;
  if (multiplies_.Has(id) || divides_.Has(id)) {
    const Gain gain = GainOf(use);
    const bool ends = gain == Gain::kForgets || (gain == Gain::kShrinks && !grows_[id]);
    return ends ? Path::kEnds : Path::kAdds;
  }
  if (passes_products_ && products_.Has(id)) return PathIntoProduct(use);
  if (passes_products_ && activates_.Has(id)) return Path::kEnds;
  const Yields& yields = of_op_[view_.op(id)];
  const bool is_yielded = use.index >= yields.first && use.index <= yields.last;
  return is_yielded && IsValue(use) ? yields.path : Path::kEnds;
}

Path Gains::PathIntoProduct(const InputPort& use) const {
  if (!IsValue(use)) return Path::kEnds;
  for (int k = 0; k < view_.num_inputs(use.node); ++k) {
    if (k == use.index || !IsValue({use.node, k})) continue;
    const int factor = view_.LookThroughInserted(view_.fanin(use.node)[k]).node;
    if (varies_[factor]) return Path::kEnds;
  }
  return Path::kAdds;
}

// The effect of the product or ratio on the tensor that `use` reads.
Gains::Gain Gains::GainOf(const InputPort& use) {
  const bool divides = divides_.Has(use.node);
  if (divides && use.index == 1) return Gain::kForgets;
  const OutputPort factor = view_.LookThroughInserted(view_.fanin(use.node)[1 - use.index]);
  const OutputPort value = view_.LookThroughInserted(view_.fanin(use.node)[use.index]);
  if (factor.node == value.node) return Gain::kKeeps;  // a square
  const ValueRange range = FactorsRange(factor, divides);
  if (range.Magnitude() < kForgets) return Gain::kShrinks;
  if (range.low >= kForgets || signs_.Has(factor.node)) return Gain::kKeeps;
  return varies_[factor.node] && ComesFromModel(factor.node) ? Gain::kForgets : Gain::kKeeps;
}

ValueRange Gains::FactorsRange(const OutputPort& factor, bool divides) const {
  const ValueRange& range = ranges_[factor.node];
  return divides ? DividedBy(ValueRange::Of(1), range) : range;
}

bool Gains::MayGrow(const InputPort& use) {
  if (!multiplies_.Has(use.node) && !divides_.Has(use.node)) return false;
  if (GainOf(use) != Gain::kKeeps) return false;
  const OutputPort factor = view_.LookThroughInserted(view_.fanin(use.node)[1 - use.index]);
  return FactorsRange(factor, divides_.Has(use.node)).Magnitude() > 1;
}

// Whether the value is computed from the result of a layer, a gate or a list.
bool Gains::ComesFromModel(int id) {
  std::vector<int> nodes = {id};
  std::unordered_set<int> seen = {id};
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (forgets_[nodes[i]] == Known::kForgets || of_model_.Has(nodes[i])) {
      forgets_[id] = Known::kForgets;
      return true;
    }
    if (view_.op_def(nodes[i]) == nullptr || forgets_[nodes[i]] == Known::kKeeps) continue;
    for (int k = 0; k < view_.num_inputs(nodes[i]); ++k) {
      const int from = view_.fanin(nodes[i])[k].node;
      if (IsValue({nodes[i], k}) && seen.insert(from).second) nodes.push_back(from);
    }
  }
  for (int node : seen) forgets_[node] = Known::kKeeps;
  return false;
}

}  // namespace npu_precision
