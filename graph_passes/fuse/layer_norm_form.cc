#include "graph_passes/fuse/layer_norm_form.h"

#include <algorithm>
#include <string>

#include "graph_passes/graph/control_inputs.h"
#include "graph_passes/graph/op_traits.h"
#include "tensorflow/core/framework/attr_value.pb.h"

namespace npu_precision {
namespace {

using tensorflow::NodeDef;

// A LayerNorm of single ops has at most ten nodes behind the root, in four levels.
constexpr size_t kMostBehindRoot = 24;
constexpr int kMostLevels = 8;
constexpr size_t kMostTerms = 8;

bool IsCopy(const std::string& op) { return op == "Identity" || op == "StopGradient"; }
bool IsArithmetic(const std::string& op) {
  return AddsAll(op) || op == "Sub" || op == "Mul" || op == "RealDiv" || op == "Neg";
}

enum class Base { kOne, kX, kMean };

// sign * base * (root or 1) * (parameter or 1)
struct Term {
  double sign = 1;
  Base base = Base::kOne;
  bool has_root = false;
  OutputPort parameter = kNoTensor;
};

bool Multiply(const Term& a, const Term& b, Term* product) {
  if (a.base != Base::kOne && b.base != Base::kOne) return false;
  if ((a.has_root && b.has_root) || (IsTensor(a.parameter) && IsTensor(b.parameter))) return false;
  product->sign = a.sign * b.sign;
  product->base = a.base == Base::kOne ? b.base : a.base;
  product->has_root = a.has_root || b.has_root;
  product->parameter = IsTensor(a.parameter) ? a.parameter : b.parameter;
  return true;
}

class Matcher {
 public:
  Matcher(const GraphView& view, const FusionSite& site, int root)
      : view_(view), site_(site), root_(root) {}

  std::vector<LayerNormForm> Run() {
    std::vector<LayerNormForm> forms;
    if (!IsPlain(root_) || !ReadVariance()) return forms;
    for (int last : BehindRoot()) {
      LayerNormForm form = of_root_;
      if (IsLayerNorm(last, &form)) forms.push_back(std::move(form));
    }
    const auto parameters = [](const LayerNormForm& form) {
      return IsTensor(form.gamma) + IsTensor(form.beta);
    };
    std::stable_sort(forms.begin(), forms.end(),
                     [&](const LayerNormForm& a, const LayerNormForm& b) {
                       return parameters(a) > parameters(b);
                     });
    return forms;
  }

 private:
  const std::string& op(int id) const { return view_.node(id).op(); }

  bool IsPlain(int id) const {
    return view_.op_def(id) != nullptr && view_.num_outputs(id) == 1 && view_.num_fanin(id) != 0;
  }

  // The tensor that `tensor` is a copy of. The copies belong to the LayerNorm.
  OutputPort Original(OutputPort tensor, std::set<int>* inner) const {
    for (int level = 0; level < kMostLevels && IsPlain(tensor.node) && IsCopy(op(tensor.node));
         ++level) {
      inner->insert(tensor.node);
      tensor = view_.fanin(tensor.node)[0];
    }
    return tensor;
  }

  // Whether `tensor` is a mean over one axis that keeps the dimension. `of` gets its input.
  bool IsMean(OutputPort tensor, OutputPort* of, LayerNormForm* form) const {
    std::set<int> copies;
    const int id = Original(tensor, &copies).node;
    if (!IsPlain(id) || op(id) != "Mean") return false;
    const auto keeps = view_.node(id).attr().find("keep_dims");
    std::vector<int64_t> axes;
    if (keeps == view_.node(id).attr().end() || !keeps->second.b() ||
        !site_.Integers(view_.fanin(id)[1], &axes) || axes.size() != 1) {
      return false;
    }
    *of = view_.fanin(id)[0];
    form->axes.insert(axes[0]);
    form->inner.insert(copies.begin(), copies.end());
    form->inner.insert(id);
    return true;
  }

  bool IsMeanOf(const OutputPort& x, const OutputPort& tensor, LayerNormForm* form) const {
    OutputPort of;
    LayerNormForm found = *form;
    if (!IsMean(tensor, &of, &found) || of != x) return false;
    *form = std::move(found);
    return true;
  }

  // Whether `a` and `b` are x and its mean, in either order.
  bool IsCentered(const OutputPort& a, const OutputPort& b, LayerNormForm* form) const {
    const std::pair<OutputPort, OutputPort> orders[] = {{a, b}, {b, a}};
    for (const auto& order : orders) {
      if (!IsMeanOf(order.first, order.second, form)) continue;
      form->x = order.first;
      return true;
    }
    return false;
  }

  // Whether `id` is a square; `root` gets the squared tensor.
  bool IsSquare(int id, OutputPort* root) const {
    if (!IsPlain(id)) return false;
    const absl::Span<const OutputPort> inputs = view_.fanin(id);
    *root = inputs[0];
    if (op(id) == "Square") return true;
    if (op(id) == "Mul") return inputs[0] == inputs[1];
    double exponent = 0;
    return op(id) == "Pow" && IsNumber(inputs[1], &exponent) && exponent == 2;
  }

  // Whether `tensor` is a number. x has at least two dimensions; a number with more would add
  // dimensions to the result.
  bool IsNumber(const OutputPort& tensor, double* value) const {
    const tensorflow::TensorProto* constant = site_.Constant(tensor);
    return constant != nullptr && constant->tensor_shape().dim_size() <= 2 &&
           site_.Number(tensor, value);
  }

  // The terms under the root.
  struct Variance {
    int centered = 0, of_squares = 0, squared_mean = 0, epsilons = 0;
    OutputPort mean;  // the mean that is squared
  };

  bool ReadMeanOfSquares(const OutputPort& tensor, double sign, Variance* variance) {
    OutputPort of, root;
    if (sign < 0 || !IsMean(tensor, &of, &of_root_) || !IsPlain(of.node)) return false;
    of_root_.inner.insert(of.node);
    if (op(of.node) == "SquaredDifference") {
      ++variance->centered;
      return IsCentered(view_.fanin(of.node)[0], view_.fanin(of.node)[1], &of_root_);
    }
    if (!IsSquare(of.node, &root)) return false;
    if (IsPlain(root.node) && op(root.node) == "Sub" &&
        IsCentered(view_.fanin(root.node)[0], view_.fanin(root.node)[1], &of_root_)) {
      ++variance->centered;
      of_root_.inner.insert(root.node);
      return true;
    }
    ++variance->of_squares;
    of_root_.x = root;
    return true;
  }

  // Adds up the terms of `tensor`. Returns false if one of them is not part of a variance.
  bool ReadTerms(const OutputPort& tensor, double sign, int levels, Variance* variance) {
    double number = 0;
    if (IsNumber(tensor, &number)) {
      // A number in a loop: new constants would have to be in the loop as well.
      if (HasControlInputs(view_, tensor.node)) return false;
      of_root_.epsilon = sign * number;
      return ++variance->epsilons == 1;
    }
    const int id = tensor.node;
    if (levels == 0 || !IsPlain(id)) return false;
    if (AddsAll(op(id)) || op(id) == "Sub") {
      of_root_.inner.insert(id);
      for (const OutputPort& input : view_.fanin(id)) {
        if (!ReadTerms(input, sign, levels - 1, variance)) return false;
        if (op(id) == "Sub") sign = -sign;
      }
      return true;
    }
    if (sign < 0 && IsSquare(id, &variance->mean)) {
      ++variance->squared_mean;
      of_root_.inner.insert(id);
      return true;
    }
    return ReadMeanOfSquares(tensor, sign, variance);
  }

  bool ReadVariance() {
    Variance variance;
    of_root_.inner.insert(root_);
    if (!ReadTerms(view_.fanin(root_)[0], 1, kMostLevels, &variance)) return false;
    if (variance.epsilons != 1 || !(of_root_.epsilon > 0)) return false;
    if (variance.centered == 1) return variance.of_squares + variance.squared_mean == 0;
    return variance.centered == 0 && variance.of_squares == 1 && variance.squared_mean == 1 &&
           IsMeanOf(of_root_.x, variance.mean, &of_root_);
  }

  // The arithmetic nodes that the root leads to. Empty if there are too many: then it is another
  // pattern, and the first few would depend on the order of the nodes.
  std::vector<int> BehindRoot() const {
    std::vector<int> behind = {root_};
    for (size_t i = 0; i < behind.size(); ++i) {
      // The result of a LayerNorm may have many readers.
      if (view_.fanout(behind[i]).size() > kMostBehindRoot) continue;
      for (const InputPort& use : view_.fanout(behind[i])) {
        const bool known = std::find(behind.begin(), behind.end(), use.node) != behind.end();
        if (!known && IsPlain(use.node) && MayLeadOn(behind[i], use.node)) {
          behind.push_back(use.node);
        }
      }
      if (behind.size() > kMostBehindRoot) return {};
    }
    behind.erase(behind.begin());
    behind.erase(
        std::remove_if(behind.begin(), behind.end(), [this](int id) { return IsCopy(op(id)); }),
        behind.end());
    return behind;
  }

  // Whether `id`, which reads the node `from` behind the root, may be part of the same LayerNorm.
  // It is not if `from` is already a LayerNorm with all parameters.
  bool MayLeadOn(int from, int id) const {
    if (!IsArithmetic(op(id)) && !IsCopy(op(id))) return false;
    LayerNormForm form = of_root_;
    return from == root_ || !IsLayerNorm(from, &form) || !IsTensor(form.beta);
  }

  // Finds the terms of a tensor; returns false if it is not made of sums and products.
  bool TermsOf(const OutputPort& tensor, int levels, LayerNormForm* form,
               std::vector<Term>* terms) const {
    Term term;
    if (tensor == form->x) {
      term.base = Base::kX;
      terms->push_back(term);
      return true;
    }
    if (IsMeanOf(form->x, tensor, form)) {
      term.base = Base::kMean;
      terms->push_back(term);
      return true;
    }
    if (tensor.node == root_) {
      term.has_root = true;
      terms->push_back(term);
      return op(root_) == "Rsqrt";
    }
    if (levels == 0) return false;
    const int id = tensor.node;
    if (!IsPlain(id) || (!IsArithmetic(op(id)) && !IsCopy(op(id)))) {
      term.parameter = tensor;
      terms->push_back(term);
      return true;
    }
    form->inner.insert(id);
    return TermsOfArithmetic(id, levels, form, terms);
  }

  bool TermsOfArithmetic(int id, int levels, LayerNormForm* form, std::vector<Term>* terms) const {
    const absl::Span<const OutputPort> inputs = view_.fanin(id);
    if (IsCopy(op(id))) return TermsOf(inputs[0], levels - 1, form, terms);
    if (op(id) == "Mul" || op(id) == "RealDiv") {
      std::vector<Term> left, right;
      if (!TermsOf(inputs[0], levels - 1, form, &left)) return false;
      if (op(id) == "RealDiv") {
        if (inputs[1].node != root_ || op(root_) != "Sqrt") return false;
        right.resize(1);
        right[0].has_root = true;
      } else if (!TermsOf(inputs[1], levels - 1, form, &right)) {
        return false;
      }
      return Product(left, right, terms);
    }
    double sign = op(id) == "Neg" ? -1 : 1;
    for (const OutputPort& input : inputs) {
      std::vector<Term> added;
      if (!TermsOf(input, levels - 1, form, &added)) return false;
      for (Term& term : added) term.sign *= sign;
      terms->insert(terms->end(), added.begin(), added.end());
      // A LayerNorm has three terms. A sum may have thousands.
      if (terms->size() > kMostTerms) return false;
      if (op(id) == "Sub") sign = -1;
    }
    return true;
  }

  static bool Product(const std::vector<Term>& left, const std::vector<Term>& right,
                      std::vector<Term>* product) {
    for (const Term& a : left) {
      for (const Term& b : right) {
        product->emplace_back();
        if (!Multiply(a, b, &product->back())) return false;
      }
    }
    return true;
  }

  bool IsLayerNorm(int last, LayerNormForm* form) const {
    std::vector<Term> terms;
    if (!TermsOf({last, 0}, kMostLevels, form, &terms)) return false;
    const Term *x = nullptr, *mean = nullptr, *beta = nullptr;
    for (const Term& term : terms) {
      const Term** place = term.base == Base::kX ? &x : term.base == Base::kMean ? &mean : &beta;
      if (*place != nullptr) return false;
      *place = &term;
    }
    if (x == nullptr || mean == nullptr || !x->has_root || !mean->has_root || x->sign != 1 ||
        mean->sign != -1 || x->parameter != mean->parameter) {
      return false;
    }
    form->gamma = x->parameter;
    if (beta != nullptr) {
      if (beta->has_root || beta->sign != 1) return false;
      form->beta = beta->parameter;
    }
    form->inner.erase(last);
    form->last = last;
    return true;
  }

  const GraphView& view_;
  const FusionSite& site_;
  const int root_;
  LayerNormForm of_root_;  // the facts shared by all LayerNorms with this root
};

}  // namespace

bool IsRootOp(const std::string& op) { return op == "Rsqrt" || op == "Sqrt"; }

std::vector<LayerNormForm> LayerNormsOf(const GraphView& view, const FusionSite& site, int root) {
  return Matcher(view, site, root).Run();
}

}  // namespace npu_precision
