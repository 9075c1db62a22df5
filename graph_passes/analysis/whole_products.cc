#include "graph_passes/analysis/whole_products.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <unordered_set>

#include "graph_passes/analysis/error_paths.h"
#include "graph_passes/graph/op_traits.h"

namespace npu_precision {
namespace {

// A bound on the nodes behind one tensor.
constexpr size_t kMostNodes = 64;

// Whole numbers of its inputs stay whole, and no fraction becomes whole.
bool StaysWhole(const std::string& op) {
  static const auto* picks = new std::unordered_set<std::string>{"AddN",
                                                                 "Neg",
                                                                 "Round",
                                                                 "Rint",
                                                                 "Slice",
                                                                 "StridedSlice",
                                                                 "GatherV2",
                                                                 "MatrixDiagPart",
                                                                 "MatrixDiagPartV2",
                                                                 "MatrixDiagPartV3"};
  return AddsOrSubtracts(op) || MovesValues(op) || picks->count(op) != 0;
}

class Finder {
 public:
  Finder(const GraphView& view, const std::vector<ValueRange>& ranges,
         const std::vector<bool>& ends_path)
      : view_(view), ranges_(ranges), ends_path_(ends_path) {}

  std::vector<int> Run(const OutputPort& tensor) {
    Push(tensor);
    bool has_product = false;
    for (size_t i = 0; i < found_.size() && i < kMostNodes; ++i) {
      const int id = found_[i];
      const bool is_product = IsMatrixOrConvolution(view_.node(id).op());
      has_product |= is_product;
      for (const OutputPort& from : view_.fanin(id)) {
        if (!is_product || IsProduct(from)) Push(from);
      }
    }
    return has_product ? found_ : std::vector<int>();
  }

 private:
  void Push(const OutputPort& tensor) {
    const int id = view_.LookThroughInserted(tensor).node;
    const std::string& op = view_.node(id).op();
    const bool passes = IsMatrixOrConvolution(op) || StaysWhole(op) || IsWholeMultiple(id);
    if (!passes || EndsErrorPath(op) || ends_path_[id] || view_.op_def(id) == nullptr) return;
    if (std::find(found_.begin(), found_.end(), id) == found_.end()) found_.push_back(id);
  }

  // Behind a product, only products count. What else one reads may be a whole network.
  bool IsProduct(const OutputPort& tensor) const {
    const auto moves = [this](int id) {
      return view_.IsTransparent(id) || (MovesValues(view_.node(id).op()) && !ends_path_[id]);
    };
    return IsMatrixOrConvolution(view_.node(view_.LookThrough(tensor, moves).node).op());
  }

  bool IsWholeMultiple(int id) const {
    if (!Multiplies(view_.node(id).op()) || view_.num_fanin(id) != 2) return false;
    for (const OutputPort& factor : view_.fanin(id)) {
      const ValueRange& range = ranges_[view_.LookThroughInserted(factor).node];
      if (range.IsPoint() && range.low != 0 && range.low == std::floor(range.low)) return true;
    }
    return false;
  }

  const GraphView& view_;
  const std::vector<ValueRange>& ranges_;
  const std::vector<bool>& ends_path_;
  std::vector<int> found_;
};

}  // namespace

std::vector<int> WholeProducts(const GraphView& view, const std::vector<ValueRange>& ranges,
                               const std::vector<bool>& ends_path, const OutputPort& tensor) {
  return Finder(view, ranges, ends_path).Run(tensor);
}

}  // namespace npu_precision
