#include "graph_passes/analysis/linear_paths.h"

#include <string>

#include "absl/strings/match.h"
#include "graph_passes/analysis/few_values.h"
#include "graph_passes/graph/op_traits.h"

namespace npu_precision {
namespace {

// A bound on the nodes of a path: an Enter of a weight may follow another in thousands of loops.
constexpr int kMostHops = 64;

bool Moves(const std::string& op) {
  const bool makes_diagonal =
      absl::StartsWith(op, "MatrixDiag") && !absl::StartsWith(op, "MatrixDiagPart");
  return MovesValues(op) || makes_diagonal;
}

bool Picks(const std::string& op) {
  return op == "Slice" || op == "StridedSlice" || op == "Gather" || op == "GatherV2";
}

bool Adds(const std::string& op) { return AddsOrSubtracts(op) || op == "BiasAdd"; }

}  // namespace

LinearPaths::LinearPaths(const GraphView& view, const ConstantValues& values,
                         const ElementCounts& elements, const std::vector<bool>& ends_path)
    : view_(view),
      values_(values),
      elements_(elements),
      ends_path_(ends_path),
      moves_(view, Moves),
      picks_(view, Picks),
      negates_(view, "Neg"),
      multiplies_(view, Multiplies),
      divides_(view, Divides),
      adds_(view, Adds),
      sources_(view, IsNeutralSource),
      constants_(view, "Const") {}

OutputPort LinearPaths::Base(OutputPort tensor, std::vector<int>* nodes, int* sign) const {
  return Follow(tensor, /*picks=*/false, nodes, sign);
}

OutputPort LinearPaths::PickedBase(OutputPort tensor, std::vector<int>* nodes, int* sign) const {
  return Follow(tensor, /*picks=*/true, nodes, sign);
}

OutputPort LinearPaths::Follow(OutputPort tensor, bool picks, std::vector<int>* nodes,
                               int* sign) const {
  int turns = 1;
  for (int hops = 0; hops < kMostHops; ++hops) {
    tensor = view_.LookThroughInserted(tensor);
    const int passed = Passed(tensor.node, picks, &turns);
    if (passed < 0) break;
    if (nodes != nullptr) nodes->push_back(tensor.node);
    tensor = view_.fanin(tensor.node)[passed];
  }
  if (sign != nullptr) *sign *= turns;
  return tensor;
}

int LinearPaths::Passed(int id, bool picks, int* sign) const {
  const absl::Span<const OutputPort> fanin = view_.fanin(id);
  // Besides the ops that split a tensor, those of a loop, whose values vary, have several outputs.
  if (fanin.empty() || view_.num_outputs(id) != 1 || ends_path_[id]) return -1;
  // The first input of a Split is a dimension, which is no float.
  if ((moves_.Has(id) || (picks && picks_.Has(id))) &&
      view_.dtype(fanin[0]) == view_.dtype(OutputPort{id, 0})) {
    return 0;
  }
  if (negates_.Has(id)) {
    *sign = -*sign;
    return 0;
  }
  if (fanin.size() != 2 || !(multiplies_.Has(id) || divides_.Has(id))) return -1;
  const int number = IsNumber(fanin[1]) ? 1 : 0;
  if (number == 0 && (divides_.Has(id) || !IsNumber(fanin[0]))) return -1;
  if (IsNegative(fanin[number])) *sign = -*sign;
  return 1 - number;
}

void LinearPaths::AddOffsets(OutputPort tensor, std::vector<int>* nodes) const {
  for (int hops = 0; hops < kMostHops; ++hops) {
    tensor = Base(tensor, nodes, nullptr);
    const absl::Span<const OutputPort> fanin = view_.fanin(tensor.node);
    if (!adds_.Has(tensor.node) || fanin.size() != 2 || ends_path_[tensor.node]) return;
    const bool first = sources_.Has(Base(fanin[0]).node),
               second = sources_.Has(Base(fanin[1]).node);
    if (first == second) return;
    nodes->push_back(tensor.node);
    tensor = fanin[first ? 1 : 0];
  }
}

bool LinearPaths::IsNumber(const OutputPort& tensor) const {
  const OutputPort from = view_.LookThroughInserted(tensor);
  const tensorflow::NodeDef& node = view_.node(from.node);
  if (constants_.Has(from.node)) {
    return npu_precision::IsNumber(node, values_) || FewValues(node, values_).size() == 1;
  }
  return elements_ != nullptr && elements_(node.name(), from.port) == 1;
}

bool LinearPaths::IsNegative(const OutputPort& number) const {
  const int id = view_.LookThroughInserted(number).node;
  return constants_.Has(id) && RangeOfConstant(view_.node(id), values_).high < 0;
}

}  // namespace npu_precision
