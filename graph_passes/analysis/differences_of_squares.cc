#include "graph_passes/analysis/differences_of_squares.h"

#include <algorithm>
#include <string>
#include <unordered_set>

#include "graph_passes/graph/op_set.h"
#include "graph_passes/graph/op_traits.h"

namespace npu_precision {
namespace {

bool Averages(const std::string& op) {
  static const auto* names = new std::unordered_set<std::string>{
      "Mean", "Sum", "AvgPool", "Conv2D", "Conv", "DepthwiseConv2dNative"};
  return names->count(op) != 0;
}

bool MultipliesTwo(const std::string& op) {
  return op == "Mul" || op == "Square" || op == "SquaredDifference";
}

class Finder {
 public:
  explicit Finder(const GraphView& view)
      : view_(view),
        adds_(view, AddsOrSubtracts),
        subtracts_(view, "Sub"),
        negates_(view, "Neg"),
        averages_(view, Averages),
        multiplies_(view, MultipliesTwo),
        moves_values_(view, MovesValues),
        constants_(view, "Const") {}

  std::vector<DifferenceOfSquares> Run() const {
    std::vector<DifferenceOfSquares> found;
    if (averages_.IsEmpty() || multiplies_.IsEmpty()) return found;
    for (int id : InOrderOfNames(view_, adds_.Ids())) {
      if (view_.num_fanin(id) != 2) continue;
      DifferenceOfSquares difference = {id, {id}};
      const OutputPort a = view_.fanin(id)[0], b = view_.fanin(id)[1];
      if (IsDifference(id, a, b, &difference.nodes) || IsDifference(id, b, a, &difference.nodes)) {
        found.push_back(std::move(difference));
      }
    }
    return found;
  }

 private:
  // These functions add the nodes that they pass to `nodes`. They leave it unchanged if they find
  // nothing.
  bool IsDifference(int id, OutputPort mean_of_product, OutputPort product_of_means,
                    std::vector<int>* nodes) const {
    const size_t before = nodes->size();
    bool is_difference = subtracts_.Has(id);
    mean_of_product = Pass(mean_of_product, nodes, &is_difference);
    product_of_means = Pass(product_of_means, nodes, &is_difference);
    if (is_difference && IsMeanOfProduct(mean_of_product, nodes) &&
        IsProductOfMeans(product_of_means, nodes)) {
      return true;
    }
    nodes->resize(before);
    return false;
  }

  bool IsMeanOfProduct(const OutputPort& tensor, std::vector<int>* nodes) const {
    if (!averages_.Has(tensor.node) || view_.num_fanin(tensor.node) == 0) return false;
    nodes->push_back(tensor.node);
    const std::vector<int> products = Terms(view_.fanin(tensor.node)[0], nodes);
    return std::all_of(products.begin(), products.end(),
                       [this](int product) { return multiplies_.Has(product); });
  }

  bool IsProductOfMeans(const OutputPort& tensor, std::vector<int>* nodes) const {
    const std::vector<int> products = Terms(tensor, nodes);
    return std::all_of(products.begin(), products.end(), [this, nodes](int product) {
      bool all_are_means = multiplies_.Has(product);
      for (const OutputPort& factor : view_.fanin(product)) {
        const OutputPort mean = Pass(factor, nodes);
        all_are_means &= averages_.Has(mean.node);
        nodes->push_back(mean.node);
      }
      return all_are_means;
    });
  }

  // The two terms of a sum, such as x² + y² in the denominator of SSIM; otherwise the tensor's node
  // itself.
  std::vector<int> Terms(const OutputPort& tensor, std::vector<int>* nodes) const {
    const OutputPort sum = Pass(tensor, nodes);
    nodes->push_back(sum.node);
    if (!adds_.Has(sum.node) || view_.num_fanin(sum.node) != 2) return {sum.node};
    std::vector<int> terms;
    for (const OutputPort& term : view_.fanin(sum.node)) terms.push_back(Pass(term, nodes).node);
    nodes->insert(nodes->end(), terms.begin(), terms.end());
    return terms;
  }

  // Walks back through copies and through constant terms and factors: TensorFlow moves an epsilon
  // from behind the difference to one of its sides. `is_difference` changes with the sign.
  OutputPort Pass(OutputPort tensor, std::vector<int>* nodes, bool* is_difference = nullptr) const {
    // The bound ends the walk on a damaged graph.
    for (int hops = 0; hops < view_.size(); ++hops) {
      tensor = view_.LookThroughInserted(tensor);
      const int varying = OnlyVaryingInput(tensor.node);
      if (varying < 0) break;
      const bool flips = negates_.Has(tensor.node) || (subtracts_.Has(tensor.node) && varying == 1);
      if (flips && is_difference != nullptr) *is_difference = !*is_difference;
      nodes->push_back(tensor.node);
      tensor = view_.fanin(tensor.node)[varying];
    }
    return tensor;
  }

  // The index of the only input that is not a constant, if the op moves, adds or multiplies; else
  // -1.
  int OnlyVaryingInput(int id) const {
    const absl::Span<const OutputPort> fanin = view_.fanin(id);
    if (fanin.empty()) return -1;
    if (moves_values_.Has(id) || negates_.Has(id)) return 0;
    if (fanin.size() != 2 || !(adds_.Has(id) || multiplies_.Has(id))) return -1;
    const bool first = IsConstant(fanin[0]), second = IsConstant(fanin[1]);
    return first == second ? -1 : first ? 1 : 0;
  }

  bool IsConstant(const OutputPort& tensor) const {
    return constants_.Has(view_.LookThroughInserted(tensor).node);
  }

  const GraphView& view_;
  const OpSet adds_, subtracts_, negates_, averages_, multiplies_, moves_values_, constants_;
};

}  // namespace

std::vector<DifferenceOfSquares> DifferencesOfSquares(const GraphView& view) {
  return Finder(view).Run();
}

}  // namespace npu_precision
