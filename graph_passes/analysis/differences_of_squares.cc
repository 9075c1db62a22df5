#include "graph_passes/analysis/differences_of_squares.h"

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
        subtracts_(view, "Sub"),
        averages_(view, Averages),
        multiplies_(view, MultipliesTwo),
        moves_values_(view, MovesValues) {}

  std::vector<DifferenceOfSquares> Run() const {
    std::vector<DifferenceOfSquares> found;
    if (averages_.IsEmpty() || multiplies_.IsEmpty()) return found;
    for (int id : InOrderOfNames(view_, subtracts_.Ids())) {
      if (view_.num_fanin(id) != 2) continue;
      DifferenceOfSquares difference = {id, {id}};
      const OutputPort a = view_.fanin(id)[0], b = view_.fanin(id)[1];
      if ((IsMeanOfProduct(a, &difference.nodes) && IsProductOfMeans(b, &difference.nodes)) ||
          (IsMeanOfProduct(b, &difference.nodes) && IsProductOfMeans(a, &difference.nodes))) {
        found.push_back(std::move(difference));
      }
    }
    return found;
  }

 private:
  // Both add the nodes that they pass to `nodes`, which is as it was where they find nothing.
  bool IsMeanOfProduct(OutputPort tensor, std::vector<int>* nodes) const {
    const size_t before = nodes->size();
    tensor = PassMoves(tensor, nodes);
    if (averages_.Has(tensor.node) && view_.num_fanin(tensor.node) > 0) {
      nodes->push_back(tensor.node);
      tensor = PassMoves(view_.fanin(tensor.node)[0], nodes);
      if (multiplies_.Has(tensor.node)) {
        nodes->push_back(tensor.node);
        return true;
      }
    }
    nodes->resize(before);
    return false;
  }

  bool IsProductOfMeans(OutputPort tensor, std::vector<int>* nodes) const {
    const size_t before = nodes->size();
    tensor = PassMoves(tensor, nodes);
    bool all_are_means = multiplies_.Has(tensor.node);
    nodes->push_back(tensor.node);
    for (const OutputPort& factor : view_.fanin(tensor.node)) {
      const OutputPort mean = PassMoves(factor, nodes);
      all_are_means &= averages_.Has(mean.node);
      nodes->push_back(mean.node);
    }
    if (!all_are_means) nodes->resize(before);
    return all_are_means;
  }

  OutputPort PassMoves(OutputPort tensor, std::vector<int>* nodes) const {
    tensor = view_.LookThroughInserted(tensor);
    // The bound ends the walk on a damaged graph.
    for (int hops = 0;
         hops < view_.size() && moves_values_.Has(tensor.node) && view_.num_fanin(tensor.node) > 0;
         ++hops) {
      nodes->push_back(tensor.node);
      tensor = view_.LookThroughInserted(view_.fanin(tensor.node)[0]);
    }
    return tensor;
  }

  const GraphView& view_;
  const OpSet subtracts_, averages_, multiplies_, moves_values_;
};

}  // namespace

std::vector<DifferenceOfSquares> DifferencesOfSquares(const GraphView& view) {
  return Finder(view).Run();
}

}  // namespace npu_precision
