#include "graph_passes/fuse/activation_forms.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/match.h"
#include "graph_passes/graph/control_inputs.h"
#include "graph_passes/graph/op_traits.h"
#include "tensorflow/core/framework/types.pb.h"

namespace npu_precision {
namespace {

// A bound on the visited nodes; no activation has more, in any form.
constexpr int kMostVisits = 48;
// A coefficient below this counts as zero.
constexpr double kNothing = 1e-6;

const double kRootOfHalf = std::sqrt(0.5);
const double kRootOfTwoOverPi = std::sqrt(2.0 / std::acos(-1.0));
constexpr double kCubic = 0.044715;

Form X() { return Form(); }

Form Number(double number) {
  Form form;
  form.op = "Const";
  form.number = number;
  return form;
}

Form Op(const char* op, std::vector<Form> inputs) {
  Form form;
  form.op = op;
  form.inputs = std::move(inputs);
  return form;
}

Form Mul(Form a, Form b) { return Op("Mul", {std::move(a), std::move(b)}); }
Form Add(Form a, Form b) { return Op("AddV2", {std::move(a), std::move(b)}); }

bool IsCommutative(const std::string& op) { return op == "Mul" || op == "AddV2"; }

}  // namespace

const char* ActivationName(Activation activation) {
  switch (activation) {
    case Activation::kNone:
      break;
    case Activation::kGeluExact:
      return "GeluExact";
    case Activation::kGeluApproximate:
      return "GeluApproximate";
    case Activation::kSwish:
      return "Swish";
    case Activation::kHardSwish:
      return "HardSwish";
    case Activation::kMish:
      return "Mish";
  }
  return "";
}

bool IsPartOfActivation(const std::string& op) {
  for (const char* part : {"Erf", "Erfc", "Tanh", "Sigmoid", "Relu6", "Minimum", "Maximum"}) {
    if (op == part) return true;
  }
  return false;
}

std::vector<Form> FusedForms(Activation activation) {
  const Form half = Number(0.5), one = Number(1.0);
  const Form erf = Add(Op("Erf", {Mul(X(), Number(kRootOfHalf))}), one);
  const Form cubic = Mul(Mul(X(), Number(kCubic)), Op("Square", {X()}));
  const Form tanh = Add(Op("Tanh", {Mul(Add(X(), cubic), Number(kRootOfTwoOverPi))}), one);
  switch (activation) {
    case Activation::kNone:
      break;
    case Activation::kGeluExact:
      return {Mul(Mul(X(), half), erf), Mul(Mul(erf, half), X())};
    case Activation::kGeluApproximate:
      return {Mul(Mul(tanh, half), X())};
    case Activation::kSwish:
      return {Mul(X(), Op("Sigmoid", {X()}))};
    case Activation::kHardSwish:
      return {Mul(Mul(X(), Number(1.0 / 6.0)), Op("Relu6", {Add(X(), Number(3.0))}))};
    case Activation::kMish:
      return {Mul(X(), Op("Tanh", {Op("Softplus", {X()})}))};
  }
  return {};
}

Activation ActivationReader::Read(int node) {
  visits_ = 0;
  functions_.clear();
  nodes_.clear();
  constants_.clear();
  const tensorflow::DataType dtype = view_.dtype(OutputPort{node, 0});
  tolerance_ = dtype == tensorflow::DT_BFLOAT16 ? std::ldexp(1.0, -7) : std::ldexp(1.0, -12);
  Value value;
  return Evaluate({node, 0}, &value) ? Classify(value) : Activation::kNone;
}

bool ActivationReader::IsX(const OutputPort& tensor) const {
  return tensor.node == x_.node && tensor.port == x_.port;
}

bool ActivationReader::ReadNumber(const OutputPort& tensor, double* value) {
  // x has two dimensions or more, so a number of up to two dimensions does not change the shape.
  const tensorflow::TensorProto* constant = site_.Constant(tensor);
  if (constant == nullptr || constant->tensor_shape().dim_size() > 2) return false;
  if (!site_.Number(tensor, value)) return false;
  constants_.insert(tensor.node);
  return true;
}

bool ActivationReader::Evaluate(const OutputPort& tensor, Value* value) {
  *value = {{{0, 0, 0, 0}}, {{0, 0, 0, 0}}, -1};
  if (++visits_ > kMostVisits || tensor.port != 0) return false;
  if (IsX(tensor)) {
    value->p.at[1] = 1;
    return true;
  }
  if (ReadNumber(tensor, &value->p.at[0])) return true;
  if (view_.op_def(tensor.node) == nullptr || !EvaluateOp(tensor.node, value)) return false;
  const bool is_number = IsNumber(*value);
  if (!is_number) nodes_.insert(tensor.node);
  // A number stays in the graph, so it must not have control inputs.
  return !is_number || !HasControlInputs(view_, tensor.node);
}

bool ActivationReader::EvaluateOp(int id, Value* value) {
  const std::string& op = view_.node(id).op();
  const absl::Span<const OutputPort> inputs = view_.fanin(id);
  if (op == "Minimum" || op == "Maximum") return EvaluateClip(id, value);
  Value a;
  if (inputs.empty() || inputs.size() > 2 || !Evaluate(inputs[0], &a)) return false;
  if (inputs.size() == 1) {
    const Value zero = {{{0, 0, 0, 0}}, {{0, 0, 0, 0}}, -1};
    if (op == "Identity") {
      *value = a;
      return true;
    }
    if (op == "Neg") return Add(zero, -1, a, value);
    if (op == "Square") return Multiply(a, a, value);
    if (op == "Sqrt" || op == "Rsqrt") {
      if (!IsNumber(a) || a.p.at[0] <= 0) return false;
      *value = zero;
      value->p.at[0] = op == "Sqrt" ? std::sqrt(a.p.at[0]) : 1 / std::sqrt(a.p.at[0]);
      return true;
    }
    if (op == "Erf") return Call(id, Kind::kErf, a, value);
    if (op == "Erfc") {
      Value erf, one = zero;
      one.p.at[0] = 1;
      return Call(id, Kind::kErf, a, &erf) && Add(one, -1, erf, value);
    }
    if (op == "Sigmoid") return Call(id, Kind::kSigmoid, a, value);
    if (op == "Relu6") return Call(id, Kind::kRelu6, a, value);
    if (op == "Softplus") return Call(id, Kind::kSoftplus, a, value);
    return op == "Tanh" && Call(id, Kind::kTanh, a, value);
  }
  Value b;
  if (!Evaluate(inputs[1], &b)) return false;
  if (AddsTensors(op)) return Add(a, 1, b, value);
  if (op == "Sub") return Add(a, -1, b, value);
  if (op == "Mul") return Multiply(a, b, value);
  if (!IsNumber(b) || b.p.at[0] == 0) return false;
  if (op == "RealDiv") {
    b.p.at[0] = 1 / b.p.at[0];
    return Multiply(a, b, value);
  }
  if (op != "Pow" || (b.p.at[0] != 2 && b.p.at[0] != 3)) return false;
  Value square;
  if (!Multiply(a, a, &square)) return false;
  if (b.p.at[0] == 3) return Multiply(square, a, value);
  *value = square;
  return true;
}

// Reads a clip of u to 0..`high`, which is high / 6 * Relu6(6 / high * u).
bool ActivationReader::EvaluateClip(int id, Value* value) {
  double low = 0, high = 0;
  OutputPort tensor = {id, 0};
  for (const char* op : {"first", "second"}) {
    const tensorflow::NodeDef& node = view_.node(tensor.node);
    const bool is_minimum = node.op() == "Minimum";
    if (tensor.port != 0 || (!is_minimum && node.op() != "Maximum")) return false;
    if (op[0] == 's' && node.op() == view_.node(id).op()) return false;
    const absl::Span<const OutputPort> inputs = view_.fanin(tensor.node);
    double* const bound = is_minimum ? &high : &low;
    nodes_.insert(tensor.node);
    if (ReadNumber(inputs[1], bound)) {
      tensor = inputs[0];
    } else if (ReadNumber(inputs[0], bound)) {
      tensor = inputs[1];
    } else {
      return false;
    }
  }
  Value inside, scale = {{{0, 0, 0, 0}}, {{0, 0, 0, 0}}, -1}, called;
  if (low != 0 || high <= 0 || !Evaluate(tensor, &inside)) return false;
  scale.p.at[0] = 6 / high;
  if (!Multiply(inside, scale, &inside) || !Call(id, Kind::kRelu6, inside, &called)) return false;
  scale.p.at[0] = high / 6;
  return Multiply(called, scale, value);
}

bool ActivationReader::Call(int id, Kind kind, const Value& argument, Value* value) {
  Polynomial of = argument.p;
  if (argument.function >= 0) {
    const Function& inner = functions_[argument.function];
    if (kind != Kind::kTanh || inner.kind != Kind::kSoftplus) return false;
    if (!Near(argument.p, {{0, 0, 0, 0}}) || !Near(argument.q, {{1, 0, 0, 0}})) return false;
    kind = Kind::kTanhOfSoftplus;
    of = inner.of;
  }
  *value = {{{0, 0, 0, 0}}, {{1, 0, 0, 0}}, -1};
  for (size_t i = 0; i < functions_.size(); ++i) {
    if (functions_[i].node == id) value->function = static_cast<int>(i);
  }
  if (value->function < 0) {
    value->function = static_cast<int>(functions_.size());
    functions_.push_back({id, kind, of});
  }
  return true;
}

Activation ActivationReader::Classify(Value value) const {
  if (value.function < 0) return Activation::kNone;
  Function function = functions_[value.function];
  const bool is_odd = function.kind == Kind::kErf || function.kind == Kind::kTanh;
  if (is_odd && function.of.at[1] < 0) {
    for (int i = 0; i < 4; ++i) {
      function.of.at[i] = -function.of.at[i];
      value.q.at[i] = -value.q.at[i];
    }
  }
  if (is_odd) {
    if (!Near(value.p, {{0, 0.5, 0, 0}}) || !Near(value.q, {{0, 0.5, 0, 0}})) {
      return Activation::kNone;
    }
    if (function.kind == Kind::kErf && Near(function.of, {{0, kRootOfHalf, 0, 0}})) {
      return Activation::kGeluExact;
    }
    const Polynomial want = {{0, kRootOfTwoOverPi, 0, kRootOfTwoOverPi * kCubic}};
    return function.kind == Kind::kTanh && Near(function.of, want) ? Activation::kGeluApproximate
                                                                   : Activation::kNone;
  }
  if (!Near(value.p, {{0, 0, 0, 0}})) return Activation::kNone;
  const Polynomial x = {{0, 1, 0, 0}};
  if (function.kind == Kind::kRelu6) {
    const bool is_swish =
        Near(value.q, {{0, 1.0 / 6.0, 0, 0}}) && Near(function.of, {{3, 1, 0, 0}});
    return is_swish ? Activation::kHardSwish : Activation::kNone;
  }
  if (!Near(value.q, x) || !Near(function.of, x)) return Activation::kNone;
  if (function.kind == Kind::kSigmoid) return Activation::kSwish;
  return function.kind == Kind::kTanhOfSoftplus ? Activation::kMish : Activation::kNone;
}

bool ActivationReader::Near(double got, double want) const {
  return std::abs(got - want) <= (want == 0 ? kNothing : tolerance_ * std::abs(want));
}

bool ActivationReader::Near(const Polynomial& got, const Polynomial& want) const {
  for (int i = 0; i < 4; ++i) {
    if (!Near(got.at[i], want.at[i])) return false;
  }
  return true;
}

bool ActivationReader::Has(const Form& form, const OutputPort& tensor) const {
  if (form.op.empty()) return IsX(tensor);
  if (form.IsNumber()) {
    double number = 0;
    return site_.Number(tensor, &number) && Near(number, form.number);
  }
  if (IsX(tensor) || tensor.port != 0) return false;
  const std::string& op = view_.node(tensor.node).op();
  if (op != form.op && !(AddsTensors(op) && AddsTensors(form.op))) return false;
  const absl::Span<const OutputPort> inputs = view_.fanin(tensor.node);
  if (inputs.size() != form.inputs.size()) return false;
  const auto matches = [&](size_t first) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!Has(form.inputs[i ^ first], inputs[i])) return false;
    }
    return true;
  };
  return matches(0) || (IsCommutative(form.op) && matches(1));
}

ActivationReader::Polynomial ActivationReader::Times(const Polynomial& a, const Polynomial& b,
                                                     bool* fits) {
  Polynomial product = {{0, 0, 0, 0}};
  for (int i = 0; i < 4; ++i) {
    for (int k = 0; k < 4; ++k) {
      const double term = a.at[i] * b.at[k];
      if (term == 0) continue;
      if (i + k > 3) {
        *fits = false;
      } else {
        product.at[i + k] += term;
      }
    }
  }
  return product;
}

bool ActivationReader::IsNumber(const Value& value) {
  return value.function < 0 && value.p.at[1] == 0 && value.p.at[2] == 0 && value.p.at[3] == 0;
}

bool ActivationReader::Multiply(const Value& a, const Value& b, Value* product) {
  if (a.function >= 0 && b.function >= 0) return false;
  bool fits = true;
  const Value& with = a.function >= 0 ? a : b;
  const Value& without = a.function >= 0 ? b : a;
  *product = {Times(a.p, b.p, &fits), Times(with.q, without.p, &fits), with.function};
  return fits;
}

bool ActivationReader::Add(const Value& a, double factor, const Value& b, Value* sum) {
  if (a.function >= 0 && b.function >= 0 && a.function != b.function) return false;
  Value result = {a.p, a.q, std::max(a.function, b.function)};
  for (int i = 0; i < 4; ++i) {
    result.p.at[i] += factor * b.p.at[i];
    result.q.at[i] += factor * b.q.at[i];
  }
  *sum = result;
  return true;
}

}  // namespace npu_precision
