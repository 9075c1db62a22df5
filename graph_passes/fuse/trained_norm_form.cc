#include "graph_passes/fuse/trained_norm_form.h"

#include <algorithm>
#include <utility>

#include "graph_passes/fuse/norm_terms.h"
#include "graph_passes/fuse/trained_norm_gradient.h"
#include "graph_passes/graph/op_set.h"
#include "graph_passes/graph/op_traits.h"
#include "tensorflow/core/framework/tensor_shape.h"

namespace npu_precision {
namespace {

constexpr int kRank = 4, kChannels = 3;
constexpr char kOtherStatistics[] =
    "its variance is not the mean of SquaredDifference(x, mean), plus an epsilon above 0";
constexpr char kOtherAxes[] =
    "its mean is not that of all axes but the last of a tensor of rank 4, with a known number of "
    "channels";
constexpr char kOtherResult[] = "its result is not x * scale + (beta - mean * scale)";

bool IsRoot(const std::string& op) { return op == "Rsqrt" || op == "Sqrt"; }

bool Squares(const std::string& op) {
  return op == "SquaredDifference" || op == "Square" || op == "Mul" || op == "Pow";
}

class Finder : private NormTerms {
 public:
  Finder(const GraphView& view, const FusionSite& site) : NormTerms(view, site) {}

  std::vector<TrainedNorm> Run() const {
    std::vector<TrainedNorm> found;
    for (int root : InOrderOfNames(view_, OpSet(view_, IsRoot).Ids())) {
      TrainedNorm norm;
      norm.root = root;
      const bool is_norm = ReadVariance(&norm) ? ReadRest(&norm) : IsOfBatch(root, &norm.why_not);
      if (is_norm) found.push_back(std::move(norm));
    }
    return found;
  }

 private:
  bool ReadRest(TrainedNorm* norm) const {
    for (const int scale : ScalesOf(*norm)) {
      TrainedNorm with = *norm;
      if (!ReadForward(scale, &with)) continue;
      ReadGradient(view_, site_, scale, &with);
      *norm = std::move(with);
      return true;
    }
    norm->why_not = kOtherResult;
    return !IsWeight(norm->x);
  }

  // Whether the root is that of a variance over the batch, in any form: of the mean of squares, or
  // of the mean of squares less the square of the mean.
  bool IsOfBatch(int root, std::string* why_not) const {
    std::set<int> passed;
    if (view_.op_def(root) == nullptr || view_.num_fanin(root) != 1) return false;
    const int sum = view_.fanin(root)[0].node;
    for (const Ports& sides : Orders(sum)) {
      if (!IsSum(sum)) return false;
      int variance = Shaped(sides.first, &passed).node;
      if (Is(variance, "Sub")) variance = Shaped(view_.fanin(variance)[0], &passed).node;
      if (!Is(variance, "Mean")) continue;
      const OutputPort squares = view_.fanin(variance)[0];
      if (!Squares(view_.node(squares.node).op()) || IsWeight(squares)) continue;
      std::vector<int64_t> axes;
      if (!site_.Integers(view_.fanin(variance)[1], &axes) || !IsOverBatch(squares, axes)) continue;
      const bool is_image = Reduces(variance, "Mean") && HasChannels(squares);
      *why_not = is_image ? kOtherStatistics : kOtherAxes;
      return true;
    }
    return false;
  }

  // Whether one number for each channel is left.
  bool IsOverBatch(const OutputPort& of, const std::vector<int64_t>& axes) const {
    const int rank = site_.Shape(of).dims();
    return std::find(axes.begin(), axes.end(), 0) != axes.end() &&
           (rank < 0 || static_cast<int>(axes.size()) < rank);
  }

  // Whether it is computed from a weight alone, as in the standardization of weights.
  bool IsWeight(OutputPort tensor) const {
    const auto passes = [this](const OutputPort& at) {
      const std::string& op = view_.node(at.node).op();
      return (Squares(op) || Reshapes(op) || op == "Sub") && view_.num_fanin(at.node) > 0;
    };
    for (int hops = 0; hops < kMostHops && passes(tensor); ++hops) {
      tensor = view_.fanin(tensor.node)[0];
    }
    return YieldsWeight(view_.node(tensor.node).op());
  }

  bool HasChannels(const OutputPort& x) const {
    const tensorflow::PartialTensorShape shape = site_.Shape(x);
    return shape.dims() == kRank && shape.dim_size(kChannels) >= 1;
  }

  bool ReadVariance(TrainedNorm* norm) const {
    if (!Is(norm->root, "Rsqrt") || view_.num_fanin(norm->root) != 1) return false;
    const int sum = view_.fanin(norm->root)[0].node;
    if (!IsSum(sum)) return false;
    for (const Ports& sides : Orders(sum)) {
      TrainedNorm found = *norm;
      found.inner.insert(sum);
      found.variance = Shaped(sides.first, &found.inner).node;
      if (!site_.Number(sides.second, &found.epsilon) || !(found.epsilon > 0)) continue;
      if (!Reduces(found.variance, "Mean")) continue;
      const int square = view_.fanin(found.variance)[0].node;
      if (!Is(square, "SquaredDifference")) continue;
      found.inner.insert(square);
      for (const Ports& both : Orders(square)) {
        TrainedNorm of = found;
        of.x = both.first;
        of.mean = Shaped(both.second, &of.inner).node;
        if (!Reduces(of.mean, "Mean") || view_.fanin(of.mean)[0] != of.x || !ReadShape(&of)) {
          continue;
        }
        *norm = std::move(of);
        return true;
      }
    }
    return false;
  }

  bool ReadShape(TrainedNorm* norm) const {
    if (!HasChannels(norm->x)) return false;
    const tensorflow::PartialTensorShape shape = site_.Shape(norm->x);
    norm->channels = shape.dim_size(kChannels);
    norm->places = 1;
    for (int dim = 0; dim < kChannels; ++dim) {
      if (shape.dim_size(dim) < 0) {
        norm->places = -1;
        return true;
      }
      norm->places *= shape.dim_size(dim);
    }
    return norm->places > 0;
  }

  // The products of the root and a gamma, and the root itself.
  std::vector<int> ScalesOf(const TrainedNorm& norm) const {
    std::vector<int> scales;
    for (const InputPort& use : view_.fanout({norm.root, 0})) {
      if (Is(use.node, "Mul") && view_.num_fanin(use.node) == 2) scales.push_back(use.node);
    }
    scales = InOrderOfNames(view_, std::move(scales));
    scales.push_back(norm.root);
    return scales;
  }

  // The sums that a node goes into, as long as nothing else reads them.
  std::vector<int> SumsAbove(int id) const {
    std::vector<int> sums;
    for (int hops = 0; hops < kMostHops; ++hops) {
      const auto uses = view_.fanout({id, 0});
      if (uses.size() != 1 || !IsSum(uses[0].node)) break;
      id = uses[0].node;
      sums.push_back(id);
    }
    return sums;
  }

  // Whether a sum adds up `product` and a shift, with others: TensorFlow's arithmetic optimizer
  // writes (x * s + t) + other as (x * s + other) + t.
  bool ReadApart(int product, int scale, TrainedNorm* norm) const {
    const std::vector<int> above = SumsAbove(product);
    for (const InputPort& use : view_.fanout({scale, 0})) {
      std::vector<int> shifts = {use.node};
      for (const InputPort& next : view_.fanout({use.node, 0})) shifts.push_back(next.node);
      for (int shift : shifts) {
        TrainedNorm found = *norm;
        if (!ReadShift({shift, 0}, scale, &found)) continue;
        std::vector<int> path = {shift};
        for (int sum : SumsAbove(shift)) {
          const auto meeting = std::find(above.begin(), above.end(), sum);
          if (meeting == above.end()) {
            path.push_back(sum);
            continue;
          }
          if (view_.num_fanin(sum) != 2) break;
          found.shift = shift;
          found.small = path.back();
          found.meeting = sum;
          found.end = product;
          found.inner.insert(path.begin(), path.end());
          found.inner.erase(product);
          *norm = std::move(found);
          return true;
        }
      }
    }
    return false;
  }

  // Whether the node is x * scale, and where it is read there is beta - mean * scale.
  bool ReadForward(int scale, TrainedNorm* norm) const {
    if (scale != norm->root) norm->gamma = Other(scale, norm->root);
    for (const InputPort& use : view_.fanout({scale, 0})) {
      const int product = use.node;
      if (!Is(product, "Mul") || Other(product, scale) != norm->x) continue;
      for (const InputPort& next : view_.fanout({product, 0})) {
        TrainedNorm found = *norm;
        if (!IsSum(next.node) || view_.num_fanin(next.node) != 2) continue;
        if (!ReadShift(Other(next.node, product), scale, &found)) continue;
        found.inner.insert(product);
        if (scale != norm->root) found.inner.insert(scale);
        found.end = next.node;
        *norm = std::move(found);
        return true;
      }
      if (ReadApart(product, scale, norm)) {
        if (scale != norm->root) norm->inner.insert(scale);
        return true;
      }
    }
    return false;
  }

  bool ReadShift(const OutputPort& shift, int scale, TrainedNorm* norm) const {
    const auto is_mean = [norm](int id) { return id == norm->mean; };
    const auto is_scale = [scale](int id) { return id == scale; };
    if (!Is(shift.node, "Sub") || view_.num_fanin(shift.node) != 2) {
      return IsProduct(shift, -1, is_mean, is_scale, norm);
    }
    norm->beta = view_.fanin(shift.node)[0];
    norm->inner.insert(shift.node);
    return IsProduct(view_.fanin(shift.node)[1], 1, is_mean, is_scale, norm);
  }
};

}  // namespace

std::vector<TrainedNorm> TrainedNorms(const GraphView& view, const FusionSite& site) {
  return Finder(view, site).Run();
}

}  // namespace npu_precision
