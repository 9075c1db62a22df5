#include "graph_passes/fuse/trained_norm_gradient.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "graph_passes/graph/op_traits.h"

namespace npu_precision {
namespace {

using Function = ChannelFunction;

constexpr size_t kMostCandidates = 16, kMostTerms = 16;

class Reader {
 public:
  Reader(const GraphView& view, const FusionSite& site, NormAlgebra* forward, TrainedNorm* norm)
      : view_(view), site_(site), forward_(forward), norm_(norm) {}

  void Run() {
    const std::vector<OutputPort> candidates = Candidates();
    norm_->has_other_gradient = !candidates.empty();
    for (const OutputPort& dy : candidates) {
      NormAlgebra algebra(view_, site_, norm_->input, dy);
      if (!ReadInputGradient(dy, &algebra)) continue;
      norm_->dy = dy;
      norm_->has_other_gradient = false;
      ReadParameters(&algebra);
      norm_->inner.insert(algebra.nodes().begin(), algebra.nodes().end());
      return;
    }
  }

 private:
  // Images from elsewhere that are multiplied with a part of the norm.
  std::vector<OutputPort> Candidates() const {
    std::vector<OutputPort> candidates;
    for (const NormAlgebra::Found& part : forward_->AllFound()) {
      for (const InputPort& use : view_.fanout(part.tensor)) {
        const std::string& op = view_.node(use.node).op();
        const bool is_factor = op == "Mul" || (op == "RealDiv" && use.index == 1);
        if (!is_factor || view_.num_fanin(use.node) != 2) continue;
        OutputPort other = view_.fanin(use.node)[1 - use.index];
        if (view_.node(other.node).op() == "Neg") other = view_.fanin(other.node)[0];
        const bool is_known =
            std::find(candidates.begin(), candidates.end(), other) != candidates.end();
        if (is_known || forward_->Of(other) != nullptr || !forward_->IsImage(other)) continue;
        if (candidates.size() < kMostCandidates) candidates.push_back(other);
      }
    }
    return candidates;
  }

  // gamma * r * (dy - Sum(dy) / n - (x - mean) * r^2 * c / n)
  Function InputGradient(NormAlgebra* algebra) const {
    const Function variance =
        Function::Sum(algebra->variance(), Function::Constant(norm_->epsilon));
    const Function x = Function::Variable(Function::kX), dy = Function::Variable(Function::kDy);
    Function mean_of_dy, of_variance, slope, scale;
    Apply("Rsqrt", {&variance}, &scale);
    Apply("RealDiv", {&algebra->sum_of_dy(), &algebra->count()}, &mean_of_dy);
    Apply("RealDiv", {&algebra->centred_sum(), &algebra->count()}, &of_variance);
    Apply("RealDiv", {&of_variance, &variance}, &slope);
    if (norm_->gamma.node != TrainedNorm::kNone) {
      Function::Product(scale, *algebra->Of(norm_->gamma), &scale);
    }
    Function centred, gradient;
    Function::Product(Function::Sum(x, algebra->mean(), -1), slope, &centred);
    Function::Product(Function::Sum(Function::Sum(dy, mean_of_dy, -1), centred, -1), scale,
                      &gradient);
    return gradient;
  }

  bool ReadInputGradient(const OutputPort& dy, NormAlgebra* algebra) {
    const Function wanted = InputGradient(algebra);
    std::vector<OutputPort> starts = {norm_->input.x, dy, {norm_->root, 0}};
    if (norm_->gamma.node != TrainedNorm::kNone) starts.push_back(norm_->gamma);
    for (int id : algebra->Region(starts)) {
      const Function& function = *algebra->Of({id, 0});
      if (function.IsVector()) continue;
      if (function.Equals(wanted)) {
        norm_->dx = id;
        return true;
      }
      for (const InputPort& use : view_.fanout({id, 0})) {
        if (IsSumOf(use.node, wanted, algebra)) return true;
      }
    }
    return false;
  }

  // Whether a node adds up the wanted function and what does not come from dy.
  bool IsSumOf(int reader, const Function& wanted, NormAlgebra* algebra) {
    int dx = TrainedNorm::kNone;
    std::vector<int> variables;
    const std::vector<OutputPort> terms = TermsOf(reader, &dx, &variables);
    if (terms.empty() || terms.size() > kMostTerms) return false;
    Function sum;
    std::vector<OutputPort> others;
    for (const OutputPort& term : terms) {
      const Function* function = algebra->Of(term);
      if (function == nullptr || !function->is_of_dy) {
        others.push_back(term);
      } else {
        sum = Function::Sum(sum, *function);
      }
    }
    if (!sum.Equals(wanted) || (!others.empty() && !variables.empty())) return false;
    norm_->dx = dx;
    norm_->others = std::move(others);
    norm_->variables = variables;
    norm_->inner.insert(variables.begin(), variables.end());
    return true;
  }

  // The terms of the sum that reads one of them in `reader`; `dx` gets the sum.
  std::vector<OutputPort> TermsOf(int reader, int* dx, std::vector<int>* variables) const {
    *dx = reader;
    if (AddsAll(view_.node(reader).op())) {
      return {view_.fanin(reader).begin(), view_.fanin(reader).end()};
    }
    // To save memory, TensorFlow writes a large AddN as additions to a temporary variable.
    const auto is = [this](int id, const char* op) { return view_.node(id).op() == op; };
    if (!is(reader, "AssignAdd")) return {};
    const int begin = view_.fanin(reader)[0].node;
    if (!is(begin, "Assign") || !is(view_.fanin(begin)[0].node, "TemporaryVariable")) return {};
    std::vector<OutputPort> terms;
    *variables = {begin, view_.fanin(begin)[0].node, view_.fanin(begin)[1].node};
    for (const InputPort& use : view_.fanout({begin, 0})) {
      if (is(use.node, "AssignAdd") && use.index == 0) {
        variables->push_back(use.node);
        terms.push_back(view_.fanin(use.node)[1]);
      } else if (is(use.node, "DestroyTemporaryVariable")) {
        *dx = use.node;
      } else {
        return {};
      }
    }
    return *dx == reader ? std::vector<OutputPort>() : terms;
  }

  // Finds the first nodes that yield dgamma and dbeta.
  void ReadParameters(NormAlgebra* algebra) {
    Function scaled;
    Function::Product(*algebra->Of({norm_->root, 0}), algebra->centred_sum(), &scaled);
    if (view_.node(norm_->root).op() == "Sqrt") {
      Apply("RealDiv", {&algebra->centred_sum(), algebra->Of({norm_->root, 0})}, &scaled);
    }
    for (const NormAlgebra::Found& part : algebra->AllFound()) {
      const int id = part.tensor.node;
      const auto comes_from_such = [&](const Function& wanted) {
        const auto fanin = view_.fanin(id);
        return std::any_of(fanin.begin(), fanin.end(), [&](const OutputPort& from) {
          const Function* function = algebra->Of(from);
          return function != nullptr && function->Equals(wanted);
        });
      };
      const auto is_first = [&](const Function& wanted) {
        return part.function->Equals(wanted) && !comes_from_such(wanted) &&
               algebra->IsVector(part.tensor);
      };
      if (is_first(scaled)) norm_->scaled.push_back(id);
      if (is_first(algebra->sum_of_dy())) norm_->sums.push_back(id);
    }
  }

  const GraphView& view_;
  const FusionSite& site_;
  NormAlgebra* const forward_;
  TrainedNorm* const norm_;
};

}  // namespace

void ReadGradient(const GraphView& view, const FusionSite& site, NormAlgebra* forward,
                  TrainedNorm* norm) {
  Reader(view, site, forward, norm).Run();
}

}  // namespace npu_precision
