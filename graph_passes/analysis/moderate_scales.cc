#include "graph_passes/analysis/moderate_scales.h"

#include <cmath>

#include "graph_passes/graph/float_values.h"
#include "graph_passes/graph/op_traits.h"
#include "tensorflow/core/framework/attr_value.pb.h"

namespace npu_precision {
namespace {

// With such an epsilon, Rsqrt is at most 3,200, which float16 holds.
constexpr float kSafeEpsilon = 1e-7f;
// Factors and terms that are written as numbers.
constexpr float kLargeNumber = 1024, kTinyNumber = 1 / kLargeNumber;
// A bound on the nodes that compute a scale.
constexpr int kMostNodes = 32;

// Ops of one data input that yield its elements. Others, such as Merge and Split, have several, or
// read the first one for something else.
bool KeepsElements(const std::string& op) {
  static const auto* names = new std::set<std::string>{
      "Identity", "Reshape", "Squeeze", "ExpandDims", "StopGradient", "Snapshot", "EnsureShape"};
  return names->count(op) != 0;
}

class Scale {
 public:
  Scale(const GraphView& view, const ConstantValues& values, const std::set<std::string>& fed,
        const std::function<bool(int)>& may_use)
      : view_(view), values_(values), fed_(fed), may_use_(may_use) {}

  // `roots`: how many factors may be an Rsqrt.
  bool IsModerate(const OutputPort& tensor, int roots) {
    int id = 0;
    if (!Behind(tensor, &id)) return false;
    const auto inputs = view_.fanin(id);
    const std::string& op = view_.node(id).op();
    if (IsNeutralSource(op)) return op != "Const" || IsModerateNumber(id);
    if (may_use_ != nullptr && !may_use_(id)) return false;
    if (op == "Rsqrt") return inputs.size() == 1 && roots > 0 && IsGuarded(inputs[0]);
    if (op == "Neg") return inputs.size() == 1 && IsModerate(inputs[0], roots);
    if (inputs.size() != 2) return false;
    if (AddsOrSubtracts(op)) return IsModerate(inputs[0], roots) && IsModerate(inputs[1], roots);
    return op == "Mul" && ((IsModerate(inputs[0], roots) && IsModerate(inputs[1], 0)) ||
                           (IsModerate(inputs[0], 0) && IsModerate(inputs[1], roots)));
  }

 private:
  // The node that computes the tensor's elements. Returns false at the bound on nodes.
  bool Behind(OutputPort tensor, int* id) {
    while (++visited_ <= kMostNodes) {
      tensor = view_.LookThroughInserted(tensor);
      if (!KeepsElements(view_.node(tensor.node).op()) || view_.num_fanin(tensor.node) == 0) {
        *id = tensor.node;
        return true;
      }
      if (may_use_ != nullptr && !may_use_(tensor.node)) return false;
      tensor = view_.fanin(tensor.node)[0];
    }
    return false;
  }

  // Whether the tensor is a sum of a source, such as a variance, and an epsilon.
  bool IsGuarded(const OutputPort& tensor) {
    int sum = 0;
    if (!Behind(tensor, &sum) || !AddsTensors(view_.node(sum).op())) return false;
    const auto inputs = view_.fanin(sum);
    return inputs.size() == 2 && ((IsVariance(inputs[0]) && IsSafe(inputs[1])) ||
                                  (IsVariance(inputs[1]) && IsSafe(inputs[0])));
  }

  bool IsVariance(const OutputPort& tensor) {
    int id = 0;
    if (!Behind(tensor, &id)) return false;
    const std::string& op = view_.node(id).op();
    const bool is_size = (op == "Square" || op == "Abs") && view_.num_fanin(id) == 1;
    return IsNeutralSource(op) || (is_size && IsVariance(view_.fanin(id)[0]));
  }

  bool IsSafe(const OutputPort& epsilon) {
    int id = 0;
    FloatValues floats;
    return Behind(epsilon, &id) && Reads(id, &floats) && floats.size() == 1 &&
           std::isfinite(floats[0]) && floats[0] >= kSafeEpsilon;
  }

  bool IsModerateNumber(int id) const {
    FloatValues floats;
    if (!Reads(id, &floats)) return false;
    for (int64_t i = 0; i < floats.size(); ++i) {
      const float size = std::fabs(floats[i]);
      if (size != 0 && !(size >= kTinyNumber && size <= kLargeNumber)) return false;
    }
    return true;
  }

  bool Reads(int id, FloatValues* floats) const {
    const tensorflow::NodeDef& node = view_.node(id);
    if (node.op() != "Const" || fed_.count(node.name()) != 0) return false;
    const tensorflow::AttrValue* value = values_.Find(node);
    return value != nullptr && floats->Read(value->tensor());
  }

  const GraphView& view_;
  const ConstantValues& values_;
  const std::set<std::string>& fed_;
  const std::function<bool(int)>& may_use_;
  int visited_ = 0;
};

}  // namespace

bool IsModerateScale(const GraphView& view, const ConstantValues& values,
                     const std::set<std::string>& fed, const OutputPort& tensor,
                     const std::function<bool(int)>& may_use) {
  return Scale(view, values, fed, may_use).IsModerate(tensor, 1);
}

}  // namespace npu_precision
