// Which activation function some elementwise ops compute together, in whatever order and grouping
// they are written, and the forms of it that TensorFlow's remapper fuses.
//
// Recognized by value, not by shape: each op is read as P(x) + Q(x) * F(u(x)), with polynomials P,
// Q and u, and one function F. 0.5 * x * (1 + erf(x / sqrt(2))) and x * (0.5 * erf(0.7071 * x) +
// 0.5) are the same such sum, and so is 0.5 * x * erfc(-x / sqrt(2)), because erfc is 1 - erf.
//
// Refused: coefficients that differ from the function's by more than 2^-12, or in bfloat16 2^-7, so
// x * sigmoid(1.702 * x) is none of these.
#ifndef NPU_PRECISION_GRAPH_PASSES_FUSE_ACTIVATION_FORMS_H_
#define NPU_PRECISION_GRAPH_PASSES_FUSE_ACTIVATION_FORMS_H_

#include <set>
#include <string>
#include <vector>

#include "graph_passes/fuse/fusion_site.h"
#include "graph_passes/graph/graph_view.h"

namespace npu_precision {

enum class Activation { kNone, kGeluExact, kGeluApproximate, kSwish, kHardSwish, kMish };

// An expression of x: an op of expressions, x itself, which has no op, or a number.
struct Form {
  std::string op;
  std::vector<Form> inputs;
  double number = 0;
  bool IsNumber() const { return op == "Const"; }
};

// The remapper's word for it.
const char* ActivationName(Activation activation);

// Whether an activation may be computed by way of an op of this type: Erf, Tanh, Sigmoid, ...
bool IsPartOfActivation(const std::string& op);

// Reads what nodes compute of one tensor, `x`.
class ActivationReader {
 public:
  ActivationReader(const GraphView& view, const FusionSite& site, OutputPort x)
      : view_(view), site_(site), x_(x) {}

  // What the node yields of x. kNone where it is none of the activations.
  Activation Read(int node);

  // Of the last Read: the nodes that compute something of x, and the constants that they read.
  const std::set<int>& nodes() const { return nodes_; }
  const std::set<int>& constants() const { return constants_; }

  // Whether a tensor is computed by `form`. Operands may be exchanged, and Add stands for AddV2.
  bool Has(const Form& form, const OutputPort& tensor) const;

 private:
  struct Polynomial {
    double at[4];
  };
  struct Value {
    Polynomial p, q;
    int function;  // an index of functions_, or -1
  };
  enum class Kind { kErf, kTanh, kSigmoid, kRelu6, kSoftplus, kTanhOfSoftplus };
  struct Function {
    int node;
    Kind kind;
    Polynomial of;
  };

  bool Evaluate(const OutputPort& tensor, Value* value);
  bool EvaluateOp(int id, Value* value);
  bool EvaluateClip(int id, Value* value);
  bool Call(int id, Kind kind, const Value& argument, Value* value);
  bool ReadNumber(const OutputPort& tensor, double* value);
  Activation Classify(Value value) const;
  bool Near(double got, double want) const;
  bool Near(const Polynomial& got, const Polynomial& want) const;
  bool IsX(const OutputPort& tensor) const;

  static Polynomial Times(const Polynomial& a, const Polynomial& b, bool* fits);
  static bool IsNumber(const Value& value);
  static bool Multiply(const Value& a, const Value& b, Value* product);
  static bool Add(const Value& a, double factor, const Value& b, Value* sum);

  const GraphView& view_;
  const FusionSite& site_;
  const OutputPort x_;
  double tolerance_ = 0;
  int visits_ = 0;
  std::vector<Function> functions_;
  std::set<int> nodes_, constants_;
};

// The forms that the remapper fuses; what has none of them is written as the first.
std::vector<Form> FusedForms(Activation activation);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_FUSE_ACTIVATION_FORMS_H_
