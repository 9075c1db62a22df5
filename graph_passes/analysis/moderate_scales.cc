#include "graph_passes/analysis/moderate_scales.h"

#include <cmath>

#include "graph_passes/graph/float_values.h"
#include "graph_passes/graph/op_traits.h"
#include "tensorflow/core/framework/attr_value.pb.h"

namespace npu_precision {
namespace {

// With such an epsilon, Rsqrt is at most 3,200, which float16 holds.
constexpr float kSafeEpsilon = 1e-7f;
// A bound on the nodes of a path, which may end in a loop.
constexpr int kMostNodes = 16;

class Scales {
 public:
  Scales(const GraphView& view, const ConstantValues& values, const std::set<std::string>& fed)
      : view_(view), values_(values), fed_(fed) {}

  bool IsModerate(const OutputPort& tensor, int left = kMostNodes) const {
    if (left == 0) return false;
    const int id = Behind(tensor);
    const auto inputs = view_.fanin(id);
    const std::string& op = view_.node(id).op();
    if (IsNeutralSource(op)) return true;
    if (op == "Rsqrt") return inputs.size() == 1 && IsGuarded(inputs[0]);
    if (op == "Neg") return inputs.size() == 1 && IsModerate(inputs[0], left - 1);
    const bool combines = op == "Mul" || AddsOrSubtracts(op);
    return combines && inputs.size() == 2 && IsModerate(inputs[0], left - 1) &&
           IsModerate(inputs[1], left - 1);
  }

 private:
  int Behind(const OutputPort& tensor) const {
    const auto moves = [this](int id) {
      return view_.IsTransparent(id) || MovesValues(view_.node(id).op());
    };
    return view_.LookThrough(tensor, moves).node;
  }

  bool IsGuarded(const OutputPort& tensor) const {
    const int sum = Behind(tensor);
    const auto inputs = view_.fanin(sum);
    return AddsTensors(view_.node(sum).op()) && inputs.size() == 2 &&
           (IsSafe(inputs[0]) || IsSafe(inputs[1]));
  }

  bool IsSafe(const OutputPort& epsilon) const {
    const tensorflow::NodeDef& node = view_.node(Behind(epsilon));
    if (node.op() != "Const" || fed_.count(node.name()) != 0) return false;
    const tensorflow::AttrValue* value = values_.Find(node);
    FloatValues floats;
    return value != nullptr && floats.Read(value->tensor()) && floats.size() == 1 &&
           std::isfinite(floats[0]) && floats[0] >= kSafeEpsilon;
  }

  const GraphView& view_;
  const ConstantValues& values_;
  const std::set<std::string>& fed_;
};

}  // namespace

bool IsModerateScale(const GraphView& view, const ConstantValues& values,
                     const std::set<std::string>& fed, const OutputPort& tensor) {
  return Scales(view, values, fed).IsModerate(tensor);
}

}  // namespace npu_precision
