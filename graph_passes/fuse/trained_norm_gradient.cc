#include "graph_passes/fuse/trained_norm_gradient.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "graph_passes/fuse/norm_terms.h"

namespace npu_precision {
namespace {

constexpr size_t kMostTerms = 16;
constexpr double kRounding = 1e-5;

bool Spreads(const std::string& op) { return op == "Tile" || op == "BroadcastTo"; }

// A vector of channels that is spread over the image, and multiplied by numbers.
struct Spread {
  OutputPort vector{TrainedNorm::kNone, 0};
  double factor = 1;
  int counts = 0;  // how often it is divided by the number of places
};

class Reader : private NormTerms {
 public:
  Reader(const GraphView& view, const FusionSite& site) : NormTerms(view, site) {}

  void Run(int scale, TrainedNorm* norm) const {
    for (const InputPort& use : view_.fanout({scale, 0})) {
      if (!Is(use.node, "Mul") || view_.num_fanin(use.node) != 2) continue;
      for (const InputPort& next : view_.fanout({use.node, 0})) {
        TrainedNorm found = *norm;
        found.dy = Other(use.node, scale);
        found.inner.insert(use.node);
        if (!ReadInputGradient(use.node, next.node, scale, &found)) continue;
        *norm = std::move(found);
        return;
      }
    }
  }

 private:
  // The terms of the sum that reads a term in `reader`; `dx` gets the sum.
  std::vector<OutputPort> TermsOf(int reader, int* dx, TrainedNorm* norm) const {
    *dx = reader;
    if (Is(reader, "AddN")) {
      return {view_.fanin(reader).begin(), view_.fanin(reader).end()};
    }
    // To save memory, TensorFlow writes a large AddN as additions to a temporary variable.
    if (!Is(reader, "AssignAdd")) return {};
    const int begin = view_.fanin(reader)[0].node;
    if (!Is(begin, "Assign") || !Is(view_.fanin(begin)[0].node, "TemporaryVariable")) return {};
    std::vector<OutputPort> terms;
    norm->variables = {begin, view_.fanin(begin)[0].node};
    for (const InputPort& use : view_.fanout({begin, 0})) {
      if (Is(use.node, "AssignAdd") && use.index == 0) {
        norm->variables.push_back(use.node);
        terms.push_back(view_.fanin(use.node)[1]);
      } else if (Is(use.node, "DestroyTemporaryVariable")) {
        *dx = use.node;
      } else {
        return {};
      }
    }
    norm->inner.insert(view_.fanin(begin)[1].node);
    norm->inner.insert(norm->variables.begin(), norm->variables.end());
    return *dx == reader ? std::vector<OutputPort>() : terms;
  }

  // Whether the sum that reads `product` in `reader` has the three terms, of which it is the first.
  bool ReadInputGradient(int product, int reader, int scale, TrainedNorm* norm) const {
    int dx = kNone;
    std::vector<OutputPort> rest = TermsOf(reader, &dx, norm);
    if (rest.size() < 3 || rest.size() > kMostTerms) return false;
    rest.erase(std::find(rest.begin(), rest.end(), OutputPort{product, 0}));
    for (size_t i = 0; i < rest.size(); ++i) {
      TrainedNorm found = *norm;
      found.dx = dx;
      if (!ReadOfMean(rest[i], scale, &found)) continue;
      rest.erase(rest.begin() + i);
      for (size_t k = 0; k < rest.size(); ++k) {
        if (!ReadOfVariance(rest[k], &found)) continue;
        rest.erase(rest.begin() + k);
        if (!rest.empty() && !found.variables.empty()) return false;
        found.others = rest;
        *norm = std::move(found);
        return true;
      }
      return false;
    }
    return false;
  }

  // -Sum(dy) * s / n
  bool ReadOfMean(const OutputPort& term, int scale, TrainedNorm* norm) const {
    Spread spread;
    if (!ReadSpread(term, &spread, norm) || !IsShare(spread, 1, *norm)) return false;
    int sum = kNone;
    const auto is_sum = [&](int id) {
      const bool is = Reduces(id, "Sum") && view_.fanin(id)[0] == norm->dy;
      if (is) sum = id;
      return is;
    };
    const auto is_scale = [scale](int id) { return id == scale; };
    if (!IsProduct(spread.vector, -1, is_sum, is_scale, norm)) return false;
    norm->sum = sum;
    return true;
  }

  // 2 / n * RsqrtGrad(r, c * gamma) * (x - m)
  bool ReadOfVariance(const OutputPort& term, TrainedNorm* norm) const {
    norm->inner.insert(term.node);
    if (!Is(term.node, "Mul")) return false;
    for (const Ports& sides : Orders(term.node)) {
      TrainedNorm found = *norm;
      const int difference = sides.second.node;
      found.inner.insert(difference);
      if (!Is(difference, "Sub") || view_.num_fanin(difference) != 2 ||
          view_.fanin(difference)[0] != found.x || !IsMean(view_.fanin(difference)[1], &found)) {
        continue;
      }
      Spread spread;
      if (!ReadSpread(sides.first, &spread, &found) || !IsShare(spread, 2, found)) continue;
      if (!ReadOfRoot(Shaped(spread.vector, &found.inner).node, &found)) continue;
      *norm = std::move(found);
      return true;
    }
    return false;
  }

  bool ReadOfRoot(int gradient, TrainedNorm* norm) const {
    if (!Is(gradient, "RsqrtGrad") || view_.fanin(gradient)[0].node != norm->root) return false;
    norm->inner.insert(gradient);
    const OutputPort of = view_.fanin(gradient)[1];
    if (norm->gamma.node == kNone) {
      norm->centred = of.node;
      return ReadCentred(of.node, norm);
    }
    if (!Is(of.node, "Mul")) return false;
    norm->inner.insert(of.node);
    for (const Ports& sides : Orders(of.node)) {
      if (sides.second != norm->gamma) continue;
      norm->centred = sides.first.node;
      return ReadCentred(sides.first.node, norm);
    }
    return false;
  }

  // c = Sum(x * dy) - m * Sum(dy)
  bool ReadCentred(int sum, TrainedNorm* norm) const {
    if (!IsSum(sum)) return false;
    for (const Ports& sides : Orders(sum)) {
      TrainedNorm found = *norm;
      const int summed = Shaped(sides.first, &found.inner).node;
      if (!Reduces(summed, "Sum") || !IsOfInput(view_.fanin(summed)[0].node, &found)) continue;
      found.inner.insert(summed);
      const auto is_mean = [&](int id) { return id == found.mean; };
      const auto is_sum = [&](int id) { return id == found.sum; };
      if (!IsProduct(sides.second, -1, is_mean, is_sum, &found)) continue;
      *norm = std::move(found);
      return true;
    }
    return false;
  }

  // x * dy
  bool IsOfInput(int id, TrainedNorm* norm) const {
    norm->inner.insert(id);
    if (!Is(id, "Mul")) return false;
    for (const Ports& sides : Orders(id)) {
      if (sides.first == norm->x && sides.second == norm->dy) return true;
    }
    return false;
  }

  bool ReadSpread(OutputPort tensor, Spread* spread, TrainedNorm* norm) const {
    bool is_spread = false;
    for (int hops = 0; hops < kMostHops; ++hops) {
      const int id = tensor.node;
      const std::string& op = view_.node(id).op();
      const auto inputs = view_.fanin(id);
      double number = 0;
      if (is_spread || view_.op_def(id) == nullptr || inputs.empty()) break;
      norm->inner.insert(id);
      if (Spreads(op) || Reshapes(op)) {
        is_spread = Spreads(op);
        tensor = inputs[0];
      } else if (op == "Mul" && inputs.size() == 2 && site_.Number(inputs[1], &number)) {
        // Its control input is the gradient before it.
        norm->inner.insert(inputs[1].node);
        spread->factor *= number;
        tensor = inputs[0];
      } else if (op == "Mul" && inputs.size() == 2 && site_.Number(inputs[0], &number)) {
        norm->inner.insert(inputs[0].node);
        spread->factor *= number;
        tensor = inputs[1];
      } else if (op == "RealDiv" && site_.Number(inputs[1], &number)) {
        spread->factor /= number;
        tensor = inputs[0];
      } else if (op == "RealDiv" && IsCount(inputs[1].node, norm)) {
        ++spread->counts;
        tensor = inputs[0];
      } else {
        break;
      }
    }
    spread->vector = tensor;
    return is_spread;
  }

  // Whether the spread vector is multiplied by `times` and divided by the number of places.
  static bool IsShare(const Spread& spread, double times, const TrainedNorm& norm) {
    if (spread.counts == 1) return spread.factor == times;
    return spread.counts == 0 && norm.places > 0 &&
           std::fabs(spread.factor * norm.places - times) <= kRounding * times;
  }

  // Cast(Prod(GatherV2(Shape(x), [0, 1, 2], 0)))
  bool IsCount(int cast, TrainedNorm* norm) const {
    if (!Is(cast, "Cast")) return false;
    const int product = view_.fanin(cast)[0].node;
    if (!Is(product, "Prod")) return false;
    const int gather = view_.fanin(product)[0].node;
    std::vector<int64_t> axes, axis;
    if (!Is(gather, "GatherV2") || !site_.Integers(view_.fanin(gather)[1], &axes) ||
        !site_.Integers(view_.fanin(gather)[2], &axis)) {
      return false;
    }
    const int shape = view_.fanin(gather)[0].node;
    if (axes != std::vector<int64_t>{0, 1, 2} || axis != std::vector<int64_t>{0} ||
        !Is(shape, "Shape")) {
      return false;
    }
    const OutputPort of = view_.fanin(shape)[0];
    const bool is_square = of.node == view_.fanin(norm->variance)[0].node;
    if (of != norm->x && !is_square) return false;
    norm->inner.insert({cast, product, gather, shape});
    return true;
  }
};

}  // namespace

void ReadGradient(const GraphView& view, const FusionSite& site, int scale, TrainedNorm* norm) {
  Reader(view, site).Run(scale, norm);
}

}  // namespace npu_precision
