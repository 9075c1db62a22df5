#include "graph_passes/fuse/trained_norm_form.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "graph_passes/fuse/trained_norm_gradient.h"
#include "graph_passes/graph/op_set.h"
#include "graph_passes/graph/op_traits.h"
#include "tensorflow/core/framework/tensor_shape.h"

namespace npu_precision {
namespace {

using Function = ChannelFunction;

constexpr int kRank = 4, kChannels = 3;
// A bound on the sums that an image goes into, and on the nodes of a variance.
constexpr size_t kMostHops = 8;
constexpr size_t kMostOfVariance = 24;
constexpr char kOtherStatistics[] =
    "its root is not that of the variance of x, plus an epsilon above 0";
constexpr char kOtherAxes[] =
    "its mean is not that of all axes but the last of a float32 tensor of rank 4, with a known "
    "number of channels";
constexpr char kOtherResult[] = "its result is not gamma * (x - mean) * root + beta";

bool IsRoot(const std::string& op) { return op == "Rsqrt" || op == "Sqrt"; }

class Finder {
 public:
  Finder(const GraphView& view, const FusionSite& site) : view_(view), site_(site) {}

  std::vector<TrainedNorm> Run() const {
    std::vector<TrainedNorm> found;
    for (int root : InOrderOfNames(view_, OpSet(view_, IsRoot).Ids())) {
      TrainedNorm norm;
      norm.root = root;
      if (Read(&norm)) found.push_back(std::move(norm));
    }
    return found;
  }

 private:
  // Whether the root is that of a batch norm, of whatever form.
  bool Read(TrainedNorm* norm) const {
    if (!ReadRoot(norm)) return false;
    const OutputPort sum = view_.fanin(norm->root)[0];
    norm->why_not = kOtherAxes;
    bool is_norm = false;
    for (int mean : MeansBehind(sum)) {
      if (!IsOverBatch(mean)) continue;
      is_norm = true;
      norm->input.x = view_.fanin(mean)[0];
      if (!ReadShape(&norm->input)) continue;
      NormAlgebra algebra(view_, site_, norm->input);
      const Function* of_mean = algebra.Of({mean, 0});
      const Function* of_sum = algebra.Of(sum);
      if (of_mean == nullptr || !of_mean->Equals(algebra.mean())) continue;
      norm->why_not = kOtherStatistics;
      const Function expected =
          Function::Sum(algebra.variance(), Function::Constant(norm->epsilon));
      if (of_sum == nullptr || !of_sum->Equals(expected) || !(norm->epsilon > 0)) continue;
      norm->mean = mean;
      norm->variance = FirstOf(algebra.variance(), &algebra);
      norm->why_not = kOtherResult;
      if (!ReadResult(&algebra, norm)) return true;
      norm->why_not.clear();
      norm->inner = algebra.nodes();
      ReadGradient(view_, site_, &algebra, norm);
      return true;
    }
    return is_norm;
  }

  // Whether it is the root of a sum with a constant. TensorFlow also writes (a - b) + epsilon as
  // a + (epsilon - b).
  bool ReadRoot(TrainedNorm* norm) const {
    if (view_.op_def(norm->root) == nullptr || view_.num_fanin(norm->root) != 1) return false;
    std::vector<OutputPort> terms = {view_.fanin(norm->root)[0]};
    for (size_t i = 0; i < terms.size() && i < kMostHops; ++i) {
      const int id = terms[i].node;
      if (i > 0 && site_.Number(terms[i], &norm->epsilon)) return true;
      if (!AddsOrSubtracts(view_.node(id).op())) continue;
      terms.insert(terms.end(), view_.fanin(id).begin(), view_.fanin(id).end());
    }
    return false;
  }

  // The first node that yields a vector of this value; kNone if there is none.
  int FirstOf(const Function& value, NormAlgebra* algebra) const {
    const auto is_such = [&](const OutputPort& tensor) {
      const Function* function = algebra->Of(tensor);
      return function != nullptr && function->Equals(value);
    };
    for (const NormAlgebra::Found& found : algebra->AllFound()) {
      const auto fanin = view_.fanin(found.tensor.node);
      if (is_such(found.tensor) && algebra->IsVector(found.tensor) &&
          std::none_of(fanin.begin(), fanin.end(), is_such)) {
        return found.tensor.node;
      }
    }
    return TrainedNorm::kNone;
  }

  // The means that a variance is computed from, the nearest first.
  std::vector<int> MeansBehind(OutputPort variance) const {
    std::vector<int> behind = {variance.node}, means;
    for (size_t i = 0; i < behind.size() && i < kMostOfVariance; ++i) {
      const std::string& op = view_.node(behind[i]).op();
      if (op == "Mean") means.push_back(behind[i]);
      if (op != "Mean" && !IsOpOfNorms(op) && !KeepsElements(op)) continue;
      for (const OutputPort& from : view_.fanin(behind[i])) {
        if (std::find(behind.begin(), behind.end(), from.node) == behind.end()) {
          behind.push_back(from.node);
        }
      }
    }
    return means;
  }

  // Whether the mean leaves one number for each channel of a batch. Weights are no batch, but may
  // be standardized.
  bool IsOverBatch(int mean) const {
    std::vector<int64_t> axes;
    if (view_.num_fanin(mean) != 2 || !site_.Integers(view_.fanin(mean)[1], &axes)) return false;
    OutputPort of = view_.fanin(mean)[0];
    const int rank = site_.Shape(of).dims();
    for (int64_t& axis : axes) axis += axis < 0 && rank >= 0 ? rank : 0;
    for (size_t hops = 0; hops < kMostHops && IsOpOfNorms(view_.node(of.node).op()); ++hops) {
      of = view_.fanin(of.node)[0];
    }
    return !YieldsWeight(view_.node(of.node).op()) &&
           std::find(axes.begin(), axes.end(), 0) != axes.end() &&
           (rank < 0 || static_cast<int>(axes.size()) < rank);
  }

  bool ReadShape(NormInput* input) const {
    const tensorflow::PartialTensorShape shape = site_.Shape(input->x);
    if (shape.dims() != kRank || shape.dim_size(kChannels) < 1) return false;
    input->channels = shape.dim_size(kChannels);
    input->places = 1;
    for (int dim = 0; dim < kChannels; ++dim) {
      if (shape.dim_size(dim) < 0) {
        input->places = -1;
        return true;
      }
      input->places *= shape.dim_size(dim);
    }
    return input->places > 1;
  }

  // Finds the result: of several, such as those before and after gamma and beta, the one with most
  // of these.
  bool ReadResult(NormAlgebra* algebra, TrainedNorm* norm) const {
    const std::vector<int> region = algebra->Region({norm->input.x, {norm->root, 0}});
    int most = -1;
    for (int id : region) {
      TrainedNorm with = *norm;
      const Function& function = *algebra->Of({id, 0});
      if (function.IsVector() || !IsResult(function, algebra, &with)) continue;
      const int vectors = (with.gamma.node != TrainedNorm::kNone ? 1 : 0) +
                          (with.beta.node != TrainedNorm::kNone ? 1 : 0);
      if (vectors <= most) continue;
      most = vectors;
      with.end = id;
      *norm = std::move(with);
    }
    if (most >= 0) return true;
    return std::any_of(region.begin(), region.end(),
                       [&](int id) { return ReadApart(id, region, algebra, norm); });
  }

  // Whether the function is gamma * root * (x - mean) + beta.
  bool IsResult(const Function& function, NormAlgebra* algebra, TrainedNorm* norm) const {
    for (int term = Function::kDy; term < Function::kNumTerms; ++term) {
      if (function.terms[term] != Function::Number{}) return false;
    }
    Function scale, offset, shift;
    scale.terms[Function::kOne] = function.terms[Function::kX];
    offset.terms[Function::kOne] = function.terms[Function::kOne];
    if (!Function::Product(scale, algebra->mean(), &shift)) return false;
    // 1 / root
    Function deviation = Function::Sum(algebra->variance(), Function::Constant(norm->epsilon));
    Function gamma;
    if (!Apply("Sqrt", {&deviation}, &deviation) || !Function::Product(scale, deviation, &gamma)) {
      return false;
    }
    const Function without_beta = Function::Sum(Function(), shift, -1);
    return FindVector(gamma, Function::Constant(1), *algebra, &norm->gamma) &&
           (offset.Equals(without_beta) ||
            FindVector(Function::Sum(offset, shift), Function(), *algebra, &norm->beta));
  }

  // Finds a vector that does not depend on the batch; none is needed if it equals `none`.
  bool FindVector(const Function& wanted, const Function& none, const NormAlgebra& algebra,
                  OutputPort* vector) const {
    if (wanted.Equals(none)) return true;
    for (const NormAlgebra::Found& found : algebra.AllFound()) {
      const bool is_vector = found.function->IsVector() && !found.function->is_of_batch;
      if (!is_vector || !found.function->Equals(wanted)) continue;
      if (!algebra.IsVector(found.tensor)) continue;
      *vector = found.tensor;
      return true;
    }
    return false;
  }

  // The sums that a node goes into, as long as nothing else reads them.
  std::vector<int> SumsAbove(int id) const {
    std::vector<int> sums;
    for (size_t hops = 0; hops < kMostHops; ++hops) {
      const auto uses = view_.fanout({id, 0});
      if (uses.size() != 1 || !AddsAll(view_.node(uses[0].node).op())) break;
      id = uses[0].node;
      sums.push_back(id);
    }
    return sums;
  }

  // Whether a sum adds up `product` and a shift, with others: TensorFlow's arithmetic optimizer
  // writes (x * s + t) + other as (x * s + other) + t.
  bool ReadApart(int product, const std::vector<int>& region, NormAlgebra* algebra,
                 TrainedNorm* norm) const {
    const Function& of_product = *algebra->Of({product, 0});
    if (of_product.IsVector()) return false;
    const std::vector<int> above = SumsAbove(product);
    for (int shift : region) {
      const Function& of_shift = *algebra->Of({shift, 0});
      TrainedNorm found = *norm;
      if (!of_shift.IsVector() || above.empty() ||
          !IsResult(Function::Sum(of_product, of_shift), algebra, &found)) {
        continue;
      }
      found.shift = found.small = shift;
      for (int sum : SumsAbove(shift)) {
        if (std::find(above.begin(), above.end(), sum) == above.end()) {
          found.small = sum;
          continue;
        }
        if (view_.num_fanin(sum) != 2) break;
        found.meeting = sum;
        found.end = product;
        *norm = std::move(found);
        return true;
      }
    }
    return false;
  }

  const GraphView& view_;
  const FusionSite& site_;
};

}  // namespace

std::vector<TrainedNorm> TrainedNorms(const GraphView& view, const FusionSite& site) {
  return Finder(view, site).Run();
}

}  // namespace npu_precision
