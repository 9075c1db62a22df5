#include "graph_passes/analysis/cancelling_terms.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "graph_passes/analysis/few_values.h"
#include "graph_passes/graph/op_set.h"
#include "graph_passes/graph/op_traits.h"
#include "tensorflow/core/framework/types.h"

namespace npu_precision {
namespace {

constexpr size_t kMostTerms = 16;

bool Adds(const std::string& op) { return AddsAll(op) || op == "Sub"; }
bool Averages(const std::string& op) { return op == "Sum" || op == "Mean"; }
bool MapsLinearly(const std::string& op) {
  return IsMatrixOrConvolution(op) || Averages(op) || op == "AvgPool" || op == "Cumsum";
}
bool TakesDiagonal(const std::string& op) {
  return op == "DiagPart" || absl::StartsWith(op, "MatrixDiagPart");
}
class Finder {
 public:
  Finder(const GraphView& view, const ConstantValues& values, const LinearPaths& paths,
         const std::vector<bool>& ends_path)
      : view_(view),
        values_(values),
        paths_(paths),
        ends_path_(ends_path),
        adds_(view, Adds),
        subtracts_(view, "Sub"),
        products_(view, IsMatrixOrConvolution),
        multiplies_(view, Multiplies),
        squares_(view, "Square"),
        powers_(view, "Pow"),
        sums_(view, "Sum"),
        averages_(view, Averages),
        maps_(view, MapsLinearly),
        diagonals_(view, TakesDiagonal),
        sources_(view, IsNeutralSource),
        weights_(view, YieldsWeight),
        casts_(view, "Cast"),
        fills_(view, "Fill") {}

  std::vector<CancellingTerms> Run() {
    std::vector<CancellingTerms> found;
    if (products_.IsEmpty()) return found;
    for (int id : InOrderOfNames(view_, adds_.Ids())) {
      if (view_.op_def(id) == nullptr || ends_path_[id]) continue;
      const std::vector<Term> terms = TermsOf(id);
      for (const Term& a : terms) {
        for (const Term& b : terms) {
          std::vector<int> nodes;
          if (&a == &b || !Cancel(a, b, &nodes)) continue;
          nodes.push_back(id);
          nodes.insert(nodes.end(), a.path.begin(), a.path.end());
          nodes.insert(nodes.end(), b.path.begin(), b.path.end());
          found.push_back({id, std::move(nodes)});
        }
      }
    }
    return found;
  }

 private:
  struct Term {
    OutputPort tensor;
    int sign;
    std::vector<int> path;  // the nodes between the sum and the tensor, and the tensor's
    bool is_part;           // some elements of the tensor
  };

  std::vector<Term> TermsOf(int sum) const {
    std::vector<Term> open = {{{sum, 0}, 1, {}, false}}, terms;
    while (!open.empty() && open.size() + terms.size() < kMostTerms) {
      Term term = std::move(open.back());
      open.pop_back();
      const OutputPort moved = paths_.Base(term.tensor);
      term.tensor = paths_.PickedBase(term.tensor, &term.path, &term.sign);
      const int id = term.tensor.node;
      term.path.push_back(id);
      term.is_part |= moved != term.tensor;
      if (!adds_.Has(id) || ends_path_[id]) {
        terms.push_back(std::move(term));
        continue;
      }
      for (int k = 0; k < view_.num_fanin(id); ++k) {
        const int turns = subtracts_.Has(id) && k == 1 ? -1 : 1;
        open.push_back({view_.fanin(id)[k], term.sign * turns, term.path, term.is_part});
      }
    }
    return terms;
  }

  // Whether the product `a` and the term `b` cancel. Adds the nodes behind them to `nodes`.
  bool Cancel(const Term& a, const Term& b, std::vector<int>* nodes) const {
    if (!products_.Has(a.tensor.node) || ends_path_[a.tensor.node]) return false;
    if (IsSquare(a, b, nodes)) return true;
    return a.sign != b.sign && (IsProductOfMeans(a, b, nodes) || MapsTheSame(a, b));
  }

  // x² beside a product with x. Their signs say nothing: the factor may be -2x.
  bool IsSquare(const Term& product, const Term& square, std::vector<int>* nodes) const {
    std::vector<int> squared;
    const OutputPort x = SquaredIn(square.tensor.node, &squared);
    if (x.node < 0) return false;
    for (const OutputPort& factor : view_.fanin(product.tensor.node)) {
      if (paths_.Base(factor) != x) continue;
      nodes->insert(nodes->end(), squared.begin(), squared.end());
      paths_.AddOffsets(factor, nodes);
      return true;
    }
    return false;
  }

  // The x of sum(x²); of a diagonal of XXᵀ; of an Einsum or a product with ones that does the same.
  OutputPort SquaredIn(int id, std::vector<int>* nodes) const {
    if (view_.num_fanin(id) == 0) return {-1, 0};
    if (diagonals_.Has(id)) {
      nodes->push_back(view_.LookThroughInserted(view_.fanin(id)[0]).node);
      return SquaredBy(nodes->back());
    }
    if (products_.Has(id)) {
      const OutputPort x = view_.node(id).op() == "Einsum" ? SquaredBy(id) : OutputPort{-1, 0};
      if (x.node >= 0) return x;
    } else if (!sums_.Has(id)) {
      return {-1, 0};
    }
    const int square = paths_.Base(view_.fanin(id)[0], nodes, nullptr).node;
    nodes->push_back(square);
    return products_.Has(square) ? OutputPort{-1, 0} : SquaredBy(square);
  }

  OutputPort SquaredBy(int id) const {
    const absl::Span<const OutputPort> fanin = view_.fanin(id);
    if (fanin.empty()) return {-1, 0};
    const OutputPort x = paths_.Base(fanin[0]);
    if (squares_.Has(id)) return x;
    if (fanin.size() != 2) return {-1, 0};
    if (powers_.Has(id) && IsTwo(fanin[1])) return x;
    const bool multiplies = multiplies_.Has(id) || products_.Has(id);
    return multiplies && x == paths_.Base(fanin[1]) ? x : OutputPort{-1, 0};
  }

  bool IsTwo(const OutputPort& exponent) const {
    const tensorflow::NodeDef& node = view_.node(view_.LookThroughInserted(exponent).node);
    return node.op() == "Const" && RangeOfConstant(node, values_) == ValueRange::Of(2);
  }

  bool IsProductOfMeans(const Term& product, const Term& means, std::vector<int>* nodes) const {
    const int id = means.tensor.node;
    if (!(products_.Has(id) || multiplies_.Has(id)) || view_.num_fanin(id) != 2) return false;
    std::vector<int> passed;
    OutputPort averaged[2];
    for (int k : {0, 1}) {
      const int mean = paths_.Base(view_.fanin(id)[k], &passed, nullptr).node;
      if (!averages_.Has(mean)) return false;
      passed.push_back(mean);
      averaged[k] = paths_.Base(view_.fanin(mean)[0]);
    }
    const absl::Span<const OutputPort> factors = view_.fanin(product.tensor.node);
    if (factors.size() != 2) return false;
    const OutputPort x = paths_.Base(factors[0]), y = paths_.Base(factors[1]);
    const bool same = x == averaged[0] && y == averaged[1];
    if (!same && !(x == averaged[1] && y == averaged[0])) return false;
    nodes->insert(nodes->end(), passed.begin(), passed.end());
    for (const OutputPort& factor : factors) paths_.AddOffsets(factor, nodes);
    return true;
  }

  // A whole tensor less a multiple of itself is no difference of two maps, but y[1:] - y[:-1] is.
  bool MapsTheSame(const Term& a, const Term& b) const {
    if (a.tensor == b.tensor && !a.is_part && !b.is_part) return false;
    for (const OutputPort& x : MappedBy(a.tensor)) {
      for (const OutputPort& y : MappedBy(b.tensor)) {
        if (x == y) return true;
      }
    }
    return false;
  }

  // The measured tensors that a tensor is a linear map of, by a matrix that is given. Ah - Ak of
  // two hidden layers of a graph network is no difference of maps of A.
  std::vector<OutputPort> MappedBy(const OutputPort& tensor) const {
    std::vector<OutputPort> found;
    const auto add = [&](const OutputPort& operand) {
      const OutputPort x = paths_.PickedBase(operand, nullptr, nullptr);
      if (IsMeasured(x)) found.push_back(x);
    };
    if (!maps_.Has(tensor.node)) {
      add(tensor);
      return found;
    }
    const absl::Span<const OutputPort> operands = view_.fanin(tensor.node);
    for (size_t k = 0; k < operands.size(); ++k) {
      if (!products_.Has(tensor.node)) {
        if (k == 0) add(operands[k]);
      } else if (operands.size() == 2 && IsGiven(operands[1 - k])) {
        add(operands[k]);
      }
    }
    return found;
  }

  bool IsGiven(const OutputPort& tensor) const {
    const int from = paths_.Base(tensor).node;
    return sources_.Has(from) || fills_.Has(from);
  }

  // A hidden layer is no measurement: a network does not work by small differences of it.
  bool IsMeasured(const OutputPort& tensor) const {
    if (casts_.Has(tensor.node)) {
      return !tensorflow::DataTypeIsFloating(view_.dtype(view_.fanin(tensor.node)[0]));
    }
    return sources_.Has(tensor.node) && !weights_.Has(tensor.node) &&
           tensorflow::DataTypeIsFloating(view_.dtype(tensor));
  }

  const GraphView& view_;
  const ConstantValues& values_;
  const LinearPaths& paths_;
  const std::vector<bool>& ends_path_;
  const OpSet adds_, subtracts_, products_, multiplies_, squares_, powers_, sums_, averages_, maps_,
      diagonals_, sources_, weights_, casts_, fills_;
};

}  // namespace

std::vector<CancellingTerms> FindCancellingTerms(const GraphView& view,
                                                 const ConstantValues& values,
                                                 const LinearPaths& paths,
                                                 const std::vector<bool>& ends_path) {
  return Finder(view, values, paths, ends_path).Run();
}

}  // namespace npu_precision
