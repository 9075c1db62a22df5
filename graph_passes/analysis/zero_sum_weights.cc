#include "graph_passes/analysis/zero_sum_weights.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>

#include "absl/strings/match.h"
#include "graph_passes/graph/float_values.h"
#include "graph_passes/graph/node_attributes.h"
#include "graph_passes/graph/op_set.h"
#include "graph_passes/graph/op_traits.h"
#include "tensorflow/core/framework/tensor_shape.h"

namespace npu_precision {
namespace {

// The rounding of the weights alone leaves a sum of up to 6e-8 of their magnitudes.
constexpr double kRounding = 1e-6;
constexpr int64_t kFewWeights = 4, kSeenOutputs = 8;

bool MultipliesWeights(const std::string& op) { return MultipliesMatrices(op) || Convolves(op); }

// The op changes no more than the shape, and not the last dimension of a filter.
bool Reshapes(const std::string& op) {
  return op == "Identity" || op == "Enter" || op == "ExpandDims" || op == "Reshape";
}

// `count` weights, `stride` apart.
struct Weights {
  int64_t begin, count, stride;
};

bool SumToZero(const FloatValues& all, const Weights& weights, bool* is_zero) {
  double sum = 0, size = 0;
  std::vector<float> magnitudes;
  for (int64_t i = 0; i < weights.count; ++i) {
    const float value = all[weights.begin + i * weights.stride];
    sum += value;
    size += std::fabs(value);
    if (value != 0) magnitudes.push_back(std::fabs(value));
  }
  *is_zero = size == 0;
  if (*is_zero) return true;
  // Also false for NaN and infinity.
  if (!(std::fabs(sum) <= kRounding * size && std::isfinite(size))) return false;
  std::sort(magnitudes.begin(), magnitudes.end());
  const int64_t nonzero = magnitudes.size();
  const int64_t different = std::unique(magnitudes.begin(), magnitudes.end()) - magnitudes.begin();
  return nonzero <= kFewWeights || 2 * different <= nonzero + 1;
}

// Looks at a few outputs: a bank of filters may have a mean or a blur beside its differences, and a
// trained weight, which has no such output, may be large.
bool AnySumsToZero(const FloatValues& all, int64_t outputs, bool outputs_are_last) {
  if (outputs <= 0) return false;
  const int64_t count = all.size() / outputs;
  for (int64_t k = 0; k < std::min(outputs, kSeenOutputs); ++k) {
    bool is_zero = false;
    const Weights weights =
        outputs_are_last ? Weights{k, count, outputs} : Weights{k * count, count, 1};
    if (SumToZero(all, weights, &is_zero) && !is_zero) return true;
  }
  return false;
}

class Finder {
 public:
  Finder(const GraphView& view, const ConstantValues& values, const LinearPaths& paths)
      : view_(view),
        values_(values),
        paths_(paths),
        products_(view, MultipliesWeights),
        matrix_(view, MultipliesMatrices),
        reshapes_(view, Reshapes),
        constants_(view, "Const"),
        subtracts_(view, "Sub"),
        sums_(view, "Sum") {}

  std::vector<ZeroSumProduct> Run() const {
    std::vector<ZeroSumProduct> found;
    for (int id : InOrderOfNames(view_, products_.Ids())) {
      if (view_.op_def(id) == nullptr || view_.num_fanin(id) != 2) continue;
      for (int k : {0, 1}) {
        if (k == 0 && !matrix_.Has(id)) continue;
        const int weights = WeightsOf(id, k);
        if (weights < 0) continue;
        found.push_back({id, weights});
        break;
      }
    }
    return found;
  }

 private:
  // The node of the weights if operand k of the product is such weights; else -1.
  int WeightsOf(int id, int k) const {
    const OutputPort& operand = view_.fanin(id)[k];
    const auto reshapes = [this](int passed) {
      return view_.IsTransparent(passed) || reshapes_.Has(passed);
    };
    const int constant = view_.LookThrough(operand, reshapes).node;
    if (constants_.Has(constant)) return HasZeroSums(id, k, constant) ? constant : -1;
    const int laplacian = paths_.Base(operand).node;
    return matrix_.Has(id) && IsLaplacian(laplacian) ? laplacian : -1;
  }

  bool HasZeroSums(int id, int k, int constant) const {
    const tensorflow::AttrValue* held = values_.Find(view_.node(constant));
    FloatValues all;
    if (held == nullptr) return false;
    const tensorflow::PartialTensorShape shape(held->tensor().tensor_shape());
    const int dims = shape.dims();
    if (dims < 2 || shape.num_elements() <= 0 || !all.Read(held->tensor())) return false;
    const tensorflow::NodeDef& node = view_.node(id);
    if (!matrix_.Has(id)) {
      int64_t outputs = shape.dim_size(dims - 1);
      if (node.op() == "DepthwiseConv2dNative") outputs *= shape.dim_size(dims - 2);
      return AnySumsToZero(all, outputs, /*outputs_are_last=*/true);
    }
    if (dims != 2) return false;
    const bool outputs_are_last = (k == 0) == IsTransposed(node, k);
    return AnySumsToZero(all, shape.dim_size(outputs_are_last ? 1 : 0), outputs_are_last);
  }

  bool IsLaplacian(int difference) const {
    if (!subtracts_.Has(difference) || view_.num_fanin(difference) != 2) return false;
    const OutputPort a = paths_.Base(view_.fanin(difference)[1]);
    const int sum = paths_.Base(view_.fanin(difference)[0]).node;
    if (!sums_.Has(sum)) return false;
    const OutputPort summed = paths_.Base(view_.fanin(sum)[0]);
    return summed == a;
  }

  const GraphView& view_;
  const ConstantValues& values_;
  const LinearPaths& paths_;
  const OpSet products_, matrix_, reshapes_, constants_, subtracts_, sums_;
};

}  // namespace

std::vector<ZeroSumProduct> ZeroSumProducts(const GraphView& view, const ConstantValues& values,
                                            const LinearPaths& paths) {
  return Finder(view, values, paths).Run();
}

}  // namespace npu_precision
