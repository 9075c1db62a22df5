#include "graph_passes/fuse/channel_function.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <set>

#include "graph_passes/graph/op_traits.h"

namespace npu_precision {
namespace {

using Function = ChannelFunction;

// Constants of float32, such as one over the number of places, are rounded.
constexpr double kRounding = 1e-5;

bool IsZero(const Function::Number& number) {
  return std::all_of(number.begin(), number.end(), [](double value) { return value == 0; });
}

// -1 if the product of these terms is none.
int ProductOf(int a, int b) {
  if (a == Function::kOne || b == Function::kOne) return a + b;
  if (a == Function::kX && b == Function::kX) return Function::kXX;
  return a + b == Function::kX + Function::kDy ? Function::kXDy : -1;
}

template <typename Map>
bool Mapped(const Function& of, const Map& map, Function* result) {
  if (!of.IsVector()) return false;
  Function found = of;
  for (double& value : found.terms[Function::kOne]) value = map(value);
  *result = found;
  return true;
}

// gradient * factor * root^power, for vectors
bool GradientOfRoot(const Function& root, const Function& gradient, double factor, double power,
                    Function* result) {
  Function slope;
  const auto map = [=](double value) { return factor * std::pow(value, power); };
  return Mapped(root, map, &slope) && Function::Product(slope, gradient, result);
}

// A constant power: of a vector, or of an image the first or second.
bool Power(const Function& of, const Function& exponent, Function* result) {
  const double power = exponent.terms[Function::kOne][0];
  if (!exponent.Equals(Function::Constant(power))) return false;
  if (power == 1) {
    *result = of;
    return true;
  }
  if (power == 2) return Function::Product(of, of, result);
  return Mapped(of, [=](double value) { return std::pow(value, power); }, result);
}

bool ApplyToTwo(const std::string& op, const Function& a, const Function& b, Function* result) {
  if (op == "Mul") return Function::Product(a, b, result);
  if (op == "RealDiv") {
    Function inverse;
    return Mapped(
               b, [](double value) { return 1 / value; }, &inverse) &&
           Function::Product(a, inverse, result);
  }
  if (op == "Pow") return Power(a, b, result);
  if (op == "RsqrtGrad") return GradientOfRoot(a, b, -0.5, 3, result);
  if (op == "SqrtGrad") return GradientOfRoot(a, b, 0.5, -1, result);
  if (op == "ReciprocalGrad") return GradientOfRoot(a, b, -1, 2, result);
  const Function difference = Function::Sum(a, b, -1);
  if (op == "SquaredDifference") return Function::Product(difference, difference, result);
  *result = difference;
  return op == "Sub";
}

bool ApplyToOne(const std::string& op, const Function& of, Function* result) {
  if (op == "Square") return Function::Product(of, of, result);
  if (op == "Rsqrt") return Mapped(of, [](double value) { return 1 / std::sqrt(value); }, result);
  if (op == "Sqrt") return Mapped(of, [](double value) { return std::sqrt(value); }, result);
  if (op == "Reciprocal") return Mapped(of, [](double value) { return 1 / value; }, result);
  *result = Function::Sum(Function(), of, -1);
  return op == "Neg";
}

}  // namespace

ChannelFunction ChannelFunction::Constant(double value) {
  ChannelFunction function;
  function.terms[kOne].fill(value);
  return function;
}

ChannelFunction ChannelFunction::Variable(Term term) {
  ChannelFunction function;
  function.terms[term].fill(1);
  function.is_of_batch = true;
  function.is_of_dy = term == kDy;
  return function;
}

ChannelFunction ChannelFunction::Random(const std::string& name, double least, double most) {
  std::seed_seq seed(name.begin(), name.end());
  std::mt19937_64 bits(seed);
  ChannelFunction function;
  for (double& number : function.terms[kOne]) {
    const double share = static_cast<double>(bits()) / static_cast<double>(UINT64_MAX);
    number = least + (most - least) * share;
  }
  return function;
}

bool ChannelFunction::IsVector() const {
  return std::all_of(terms.begin() + kX, terms.end(), IsZero);
}

bool ChannelFunction::Equals(const ChannelFunction& other) const {
  for (int point = 0; point < kPoints; ++point) {
    double largest = 0, apart = 0;
    for (int term = 0; term < kNumTerms; ++term) {
      const double a = terms[term][point], b = other.terms[term][point];
      if (!std::isfinite(a) || !std::isfinite(b)) return false;
      largest = std::max({largest, std::fabs(a), std::fabs(b)});
      apart = std::max(apart, std::fabs(a - b));
    }
    if (apart > kRounding * largest) return false;
  }
  return true;
}

ChannelFunction ChannelFunction::Sum(const ChannelFunction& a, const ChannelFunction& b,
                                     double factor) {
  ChannelFunction sum = a;
  for (int term = 0; term < kNumTerms; ++term) {
    for (int point = 0; point < kPoints; ++point) {
      sum.terms[term][point] += factor * b.terms[term][point];
    }
  }
  sum.is_of_batch |= b.is_of_batch;
  sum.is_of_dy |= b.is_of_dy;
  return sum;
}

bool ChannelFunction::Product(const ChannelFunction& a, const ChannelFunction& b,
                              ChannelFunction* product) {
  ChannelFunction found;
  for (int of_a = 0; of_a < kNumTerms; ++of_a) {
    for (int of_b = 0; of_b < kNumTerms; ++of_b) {
      if (IsZero(a.terms[of_a]) || IsZero(b.terms[of_b])) continue;
      const int term = ProductOf(of_a, of_b);
      if (term < 0) return false;
      for (int point = 0; point < kPoints; ++point) {
        found.terms[term][point] += a.terms[of_a][point] * b.terms[of_b][point];
      }
    }
  }
  found.is_of_batch = a.is_of_batch || b.is_of_batch;
  found.is_of_dy = a.is_of_dy || b.is_of_dy;
  *product = found;
  return true;
}

bool IsOpOfNorms(const std::string& op) {
  static const auto* ops = new std::set<std::string>{"Mul",
                                                     "RealDiv",
                                                     "Sub",
                                                     "SquaredDifference",
                                                     "RsqrtGrad",
                                                     "SqrtGrad",
                                                     "ReciprocalGrad",
                                                     "Square",
                                                     "Rsqrt",
                                                     "Sqrt",
                                                     "Neg",
                                                     "Reciprocal",
                                                     "Pow"};
  return AddsAll(op) || ops->count(op) != 0;
}

bool Apply(const std::string& op, const std::vector<const ChannelFunction*>& inputs,
           ChannelFunction* result) {
  if (AddsAll(op)) {
    *result = ChannelFunction();
    for (const ChannelFunction* input : inputs) *result = ChannelFunction::Sum(*result, *input);
    return true;
  }
  if (inputs.size() == 2) return ApplyToTwo(op, *inputs[0], *inputs[1], result);
  return inputs.size() == 1 && ApplyToOne(op, *inputs[0], result);
}

}  // namespace npu_precision
