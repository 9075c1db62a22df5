#include "graph_passes/analysis/value_ranges.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "graph_passes/analysis/few_values.h"
#include "graph_passes/analysis/op_ranges.h"
#include "graph_passes/analysis/product_flops.h"
#include "graph_passes/graph/op_set.h"
#include "graph_passes/graph/op_traits.h"

namespace npu_precision {
namespace {

// If a bound of a loop variable still moves after this many passes, it moves on to the next of
// these.
constexpr int kPassesBeforeWidening = 3;
constexpr double kBounds[] = {-ValueRange::kInfinity, -1, 0, 1, ValueRange::kInfinity};

double NextBelow(double low) {
  return *std::find_if(std::rbegin(kBounds), std::rend(kBounds),
                       [low](double bound) { return bound <= low; });
}

double NextAbove(double high) {
  return *std::find_if(std::begin(kBounds), std::end(kBounds),
                       [high](double bound) { return bound >= high; });
}

class Solver {
 public:
  Solver(const GraphView& view, const ConstantValues& values, const std::set<std::string>& fed,
         const ElementCounts& elements, const TensorShapes& shapes)
      : view_(view),
        values_(values),
        fed_(fed),
        elements_(elements),
        shapes_(shapes),
        sums_(view, "Sum"),
        products_(view, IsMatrixOrConvolution),
        constants_(view, "Const"),
        merges_(view, IsMerge),
        next_(view, "NextIteration"),
        ranges_(view.size()) {
    for (int op = 0; op < view.num_ops(); ++op) {
      of_op_.push_back(OpRangeOf(view.op_numbered(op).name));
    }
  }

  std::vector<ValueRange> Run() {
    const std::vector<int> order = Order();
    for (int id : order) ranges_[id] = ValueRange::Nothing();
    // Each bound of each Merge is widened a few times at most, so this ends.
    bool changed = true;
    for (int pass = 1; changed; ++pass) {
      changed = false;
      for (int id : order) changed |= Update(id, pass > kPassesBeforeWidening);
      if (next_.IsEmpty()) break;
    }
    return std::move(ranges_);
  }

 private:
  // The nodes in topological order, except for the NextIterations that a Merge reads. A damaged
  // graph may have other cycles; their nodes are left out.
  std::vector<int> Order() const {
    std::vector<int> order, missing(view_.size(), 0);
    for (int id = 0; id < view_.size(); ++id) {
      for (const OutputPort& from : view_.fanin(id)) missing[id] += !IsBackEdge(from.node, id);
      if (missing[id] == 0) order.push_back(id);
    }
    for (size_t i = 0; i < order.size(); ++i) {
      for (const InputPort& use : view_.fanout(order[i])) {
        if (!IsBackEdge(order[i], use.node) && --missing[use.node] == 0) order.push_back(use.node);
      }
    }
    return order;
  }

  bool IsBackEdge(int from, int to) const { return next_.Has(from) && merges_.Has(to); }

  // Returns whether a Merge changed, after which another pass is needed.
  bool Update(int id, bool widens) {
    const ValueRange before = ranges_[id];
    ValueRange now = Compute(id);
    if (widens && merges_.Has(id)) {
      now = Join(before, now);  // so that the loop ends, whatever rounding does to the bounds
      if (now.low < before.low) now.low = NextBelow(now.low);
      if (now.high > before.high) now.high = NextAbove(now.high);
    }
    ranges_[id] = now;
    return merges_.Has(id) && now != before;
  }

  ValueRange Compute(int id) {
    if (fed_.count(view_.node(id).name()) != 0) return ValueRange();
    if (constants_.Has(id)) return RangeOfConstant(view_.node(id), values_);
    const OpRange of_op = of_op_[view_.op(id)];
    if (of_op == nullptr || view_.op_def(id) == nullptr || view_.calls_function(id)) {
      return ValueRange();
    }
    const absl::Span<const OutputPort> fanin = view_.fanin(id);
    inputs_.clear();
    for (const OutputPort& from : fanin) {
      const ValueRange& input = ranges_[from.node];
      // The first pass over a loop visits the Merge before its NextIteration.
      if (input.IsNothing() && !merges_.Has(id)) return input;
      inputs_.push_back(input);
    }
    const bool first_two_are_one = fanin.size() > 1 && fanin[0] == fanin[1];
    const double num_terms = sums_.Has(id) ? NumTerms(id) : products_.Has(id) ? NumProducts(id) : 1;
    return of_op({view_.node(id), inputs_, first_two_are_one, num_terms});
  }

  // The number of elements that a Sum adds up for each output element; infinity if not known.
  double NumTerms(int id) const {
    const bool matters = std::isfinite(inputs_[0].low) || std::isfinite(inputs_[0].high);
    if (!matters || inputs_[0] == ValueRange::Of(0) || !elements_) return ValueRange::kInfinity;
    const OutputPort& from = view_.fanin(id)[0];
    const int64_t before = elements_(view_.node(from.node).name(), from.port);
    const int64_t after = elements_(view_.node(id).name(), 0);
    if (before == kUnknownElements || after <= 0) return ValueRange::kInfinity;
    return static_cast<double>(before) / after;
  }

  double NumProducts(int id) const {
    const bool matters = inputs_.size() == 2 && std::isfinite(inputs_[0].Magnitude()) &&
                         std::isfinite(inputs_[1].Magnitude());
    const double terms = matters && shapes_ ? ProductTerms(view_, shapes_, id) : kUnknownCost;
    return terms < 0 ? ValueRange::kInfinity : terms;
  }

  const GraphView& view_;
  const ConstantValues& values_;
  const std::set<std::string>& fed_;
  const ElementCounts& elements_;
  const TensorShapes& shapes_;
  const OpSet sums_, products_, constants_, merges_, next_;
  std::vector<OpRange> of_op_;      // by the number of the op in the view
  std::vector<ValueRange> inputs_;  // of the current node
  std::vector<ValueRange> ranges_;  // by node id
};

}  // namespace

std::vector<ValueRange> ValueRanges(const GraphView& view, const ConstantValues& values,
                                    const std::set<std::string>& fed, const ElementCounts& elements,
                                    const TensorShapes& shapes) {
  return Solver(view, values, fed, elements, shapes).Run();
}

}  // namespace npu_precision
