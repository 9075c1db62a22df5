#include "graph_passes/analysis/close_differences.h"

#include <string>
#include <unordered_set>

#include "graph_passes/analysis/large_offset.h"
#include "graph_passes/analysis/next_arguments.h"
#include "graph_passes/graph/op_set.h"
#include "graph_passes/graph/op_traits.h"
#include "tensorflow/core/framework/types.h"

namespace npu_precision {
namespace {

// Bounds on the nodes between a difference and what it comes from.
constexpr int kMostHops = 32;
constexpr size_t kMostNodes = 64;

using Names = std::unordered_set<std::string>;

// The op picks elements of its first input, or moves all. A Merge is the start of an iteration.
bool Picks(const std::string& op) {
  static const auto* names = new Names{"Slice", "StridedSlice", "Gather", "GatherV2", "GatherNd"};
  return names->count(op) != 0 || (MovesValues(op) && !IsMerge(op));
}

// The op yields numbers as large as its first input.
bool StaysAsLarge(const std::string& op) {
  static const auto* names = new Names{"Neg",     "Max",       "Min",       "Mean",    "AvgPool",
                                       "MaxPool", "AvgPool3D", "MaxPool3D", "Maximum", "Minimum"};
  return names->count(op) != 0 || Picks(op);
}

bool ChoosesLargest(const std::string& op) {
  return op == "ArgMax" || op == "ArgMin" || op == "TopKV2" || op == "TopK";
}

bool IsConstant(const std::string& op) { return op == "Const" || op == "HostConst"; }

bool Weighs(const std::string& op) { return Multiplies(op) || Divides(op); }

bool IsNoLayer(const std::string& op) {
  return IsNeutralSource(op) || IsMerge(op) || op == "Softmax";
}

bool IsLinear(const std::string& op) {
  return AddsOrSubtracts(op) || IsMatrixOrConvolution(op) || Weighs(op);
}

class Finder {
 public:
  Finder(const GraphView& view, const std::vector<ValueRange>& ranges, bool takes_arguments)
      : view_(view),
        ranges_(ranges),
        is_loops_(view.size(), false),
        picks_(view, Picks),
        stays_as_large_(view, StaysAsLarge),
        sources_(view, IsNeutralSource),
        constants_(view, IsConstant),
        reads_variable_(view, ReadsVariable),
        casts_(view, "Cast"),
        sums_(view, AddsOrSubtracts),
        products_(view, IsMatrixOrConvolution),
        convolutions_(view, Convolves),
        differences_(view, IsDifference),
        weighs_(view, Weighs),
        chooses_(view, ChoosesLargest),
        means_(view, "Mean") {
    if (takes_arguments) return;
    for (int argument : ArgumentsOf(view)) is_loops_[argument] = true;
  }

  std::vector<CloseDifference> Run() const {
    std::vector<int> ids;
    for (int id = 0; id < view_.size(); ++id) {
      if (view_.num_fanin(id) == 2 && (differences_.Has(id) || chooses_.Has(id))) ids.push_back(id);
    }
    std::vector<CloseDifference> found;
    for (int id : InOrderOfNames(view_, std::move(ids))) {
      CloseDifference close = {id, {}, -1};
      if (differences_.Has(id)) {
        AddSides(&close);
      } else if (IsSumWithGiven(RootOf(view_.fanin(id)[0], 0))) {
        close.sides = {view_.fanin(id)[0]};
      }
      if (!close.sides.empty()) found.push_back(close);
    }
    return found;
  }

 private:
  void AddSides(CloseDifference* close) const {
    const absl::Span<const OutputPort> fanin = view_.fanin(close->difference);
    const OutputPort first = fanin[0], second = fanin[1];
    const bool is_norm = Centres(first, second) || Centres(second, first);
    const bool is_first_known = IsGiven(first) || IsLargeNumber(first);
    if (is_first_known != (IsGiven(second) || IsLargeNumber(second))) {
      if (is_norm) return;
      if (IsStep(is_first_known ? first : second, is_first_known ? second : first)) return;
      close->sides = {is_first_known ? second : first};
      return;
    }
    const OutputPort root = RootOf(first, 0), other = RootOf(second, 0);
    if (root.node != other.node || root.port != other.port) return;
    if (products_.Has(root.node)) {
      // A fused norm of a convolution takes its statistics from what the convolution rounds, too.
      if (is_norm && convolutions_.Has(root.node)) return;
      close->sides = {first, second, root};
      close->product = root.node;
    } else if (IsSumWithGiven(root) && !is_norm) {
      close->sides = {first, second, root};
    }
  }

  // Whether a mean is taken from its own values. In a network of residual sums, each norm does so.
  bool Centres(const OutputPort& values, const OutputPort& mean) const {
    const int from = Picked(mean).node;
    return means_.Has(from) && Picked(view_.fanin(from)[0]).node == Picked(values).node;
  }

  // Whether a step is taken from a factor of a product: from weights that the caller gives.
  bool IsStep(const OutputPort& given, const OutputPort& step) const {
    if (!weighs_.Has(Picked(step).node)) return false;
    for (const InputPort& use : view_.fanout(Picked(given))) {
      if (products_.Has(use.node)) return true;
    }
    return false;
  }

  OutputPort Picked(const OutputPort& tensor) const {
    return view_.LookThrough(tensor,
                             [this](int id) { return view_.IsTransparent(id) || picks_.Has(id); });
  }

  // Whether the caller gives the graph the tensor. Labels may be whole numbers.
  bool IsGiven(const OutputPort& tensor) const {
    int from = Picked(tensor).node;
    if (casts_.Has(from)) from = Picked(view_.fanin(from)[0]).node;
    return sources_.Has(from) && !constants_.Has(from) && !reads_variable_.Has(from) &&
           !is_loops_[from];
  }

  bool IsLargeNumber(const OutputPort& tensor) const {
    const ValueRange& range = ranges_[view_.LookThroughInserted(tensor).node];
    return range.IsPoint() && range.Magnitude() >= kLargeOffset;
  }

  bool IsNumber(const OutputPort& tensor) const {
    return ranges_[view_.LookThroughInserted(tensor).node].IsPoint();
  }

  // What the tensor has its size from: the one that it is computed from by moves, choices, means
  // and factors, if it is one.
  OutputPort RootOf(OutputPort tensor, int depth) const {
    for (int hops = 0; hops < kMostHops; ++hops) {
      const int id = tensor.node;
      if (view_.IsTransparent(id) || stays_as_large_.Has(id)) {
        if (view_.num_fanin(id) == 0) return tensor;
        tensor = view_.fanin(id)[0];
        continue;
      }
      if (!weighs_.Has(id) || view_.num_fanin(id) != 2) return tensor;
      const OutputPort first = view_.fanin(id)[0], second = view_.fanin(id)[1];
      if (IsNumber(first) || IsNumber(second)) {
        tensor = IsNumber(first) ? second : first;
        continue;
      }
      // The terms of a determinant are products of places that one tensor holds.
      if (depth > 0) return tensor;
      const OutputPort root = RootOf(first, depth + 1), other = RootOf(second, depth + 1);
      return root.node == other.node && products_.Has(root.node) ? root : tensor;
    }
    return tensor;
  }

  // Whether the tensor is a sum with what is given: what was added to a price is lost beside it.
  bool IsSumWithGiven(OutputPort tensor) const {
    for (int hops = 0; hops < kMostHops && sums_.Has(tensor.node); ++hops) {
      const OutputPort first = view_.fanin(tensor.node)[0], second = view_.fanin(tensor.node)[1];
      const bool is_first = IsGiven(first), is_second = IsGiven(second);
      if (is_first || is_second) return is_first != is_second;
      tensor = view_.LookThroughInserted(first);
    }
    return false;
  }

  const GraphView& view_;
  const std::vector<ValueRange>& ranges_;
  std::vector<bool>
      is_loops_;  // by node id: whether it is an argument that the caller does not give
  const OpSet picks_, stays_as_large_, sources_, constants_, reads_variable_, casts_, sums_,
      products_, convolutions_, differences_, weighs_, chooses_, means_;
};

}  // namespace

std::vector<CloseDifference> CloseDifferences(const GraphView& view,
                                              const std::vector<ValueRange>& ranges,
                                              bool takes_arguments) {
  return Finder(view, ranges, takes_arguments).Run();
}

LayerReads::LayerReads(const GraphView& view)
    : view_(view), picks_(view, Picks), ends_(view, IsNoLayer), is_linear_(view, IsLinear) {}

bool LayerReads::ReadsNone(int product) const {
  const auto moves = [this](int id) { return view_.IsTransparent(id) || picks_.Has(id); };
  std::vector<int> open = {product};
  for (size_t i = 0; i < open.size(); ++i) {
    if (open.size() > kMostNodes) return false;
    for (const OutputPort& input : view_.fanin(open[i])) {
      const int from = view_.LookThrough(input, moves).node;
      if (ends_.Has(from)) continue;
      if (!is_linear_.Has(from)) return false;
      open.push_back(from);
    }
  }
  return true;
}

}  // namespace npu_precision
