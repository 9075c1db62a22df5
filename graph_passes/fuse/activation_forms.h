// Recognizes which activation function some elementwise ops compute together, in any order and
// grouping, and has the forms of it that TensorFlow's remapper fuses.
//
// Recognition is by value, not by shape: each op is read as P(x) + Q(x) * F(u(x)), with polynomials
// P, Q and u, and one function F. 0.5 * x * (1 + erf(x / sqrt(2))) and x * (0.5 * erf(0.7071 * x) +
// 0.5) are the same sum, and so is 0.5 * x * erfc(-x / sqrt(2)), because erfc is 1 - erf.
//
// Refused: coefficients that differ from the function's by more than 2^-12, or 2^-7 in bfloat16. So
// x * sigmoid(1.702 * x) is not recognized.
#ifndef NPU_PRECISION_GRAPH_PASSES_FUSE_ACTIVATION_FORMS_H_
#define NPU_PRECISION_GRAPH_PASSES_FUSE_ACTIVATION_FORMS_H_

#include <set>
#include <string>
#include <vector>

#include "graph_passes/fuse/fusion_site.h"
#include "graph_passes/graph/graph_view.h"

namespace npu_precision {

enum class Activation { kNone, kGeluExact, kGeluApproximate, kSwish, kHardSwish, kMish };

// An expression of x: an op on expressions, x itself (no op), or a number.
struct Form {
  std::string op;
  std::vector<Form> inputs;
  double number = 0;
  bool IsNumber() const { return op == "Const"; }
};

// The remapper's name for the activation.
const char* ActivationName(Activation activation);

// Whether an activation may use an op of this type: Erf, Tanh, Sigmoid, ...
bool IsPartOfActivation(const std::string& op);

// Reads the functions that nodes compute of one tensor, `x`.
class ActivationReader {
 public:
  ActivationReader(const GraphView& view, const FusionSite& site, OutputPort x)
      : view_(view), site_(site), x_(x) {}

  // The activation of x that the node computes, or kNone.
  Activation Read(int node);

  // The nodes of the last Read that depend on x, and the constants that they read.
  const std::set<int>& nodes() const { return nodes_; }
  const std::set<int>& constants() const { return constants_; }

  // Whether a tensor is computed in the form `form`. Operands may be exchanged, and Add stands for
  // AddV2.
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

// The forms that the remapper fuses. An activation in none of them is written in the first.
std::vector<Form> FusedForms(Activation activation);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_FUSE_ACTIVATION_FORMS_H_
