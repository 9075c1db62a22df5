#include "graph_passes/analysis/gated_tails.h"

#include <string>

#include "graph_passes/graph/float_values.h"
#include "graph_passes/graph/op_traits.h"
#include "tensorflow/core/framework/attr_value.pb.h"

namespace npu_precision {
namespace {

// A bound on the factors of a multiple, and on the nodes between a tail and an Exp.
constexpr int kMost = 8;

struct Multiple {
  OutputPort of;
  bool is_negative;
};

class Tails {
 public:
  explicit Tails(const GraphView& view) : view_(view) {}

  bool IsGated(int id) const {
    if (view_.node(id).op() != "Erfc" || view_.num_fanin(id) != 1) return false;
    const Multiple argument = MultipleOf(view_.fanin(id)[0]);
    if (!argument.is_negative) return false;
    bool weighs_argument = false, may_grow = false;
    view_.VisitThroughInserted(view_.fanout(id), [&](const InputPort& use) {
      const auto inputs = view_.fanin(use.node);
      if (view_.node(use.node).op() != "Mul" || inputs.size() != 2) {
        may_grow = true;
        return;
      }
      const Multiple other = MultipleOf(inputs[1 - use.index]);
      const bool is_own = other.of == argument.of && !other.is_negative;
      weighs_argument |= is_own;
      may_grow |= IsExp(other.of) || (is_own && MeetsExp(use.node, kMost));
    });
    return weighs_argument && !may_grow;
  }

 private:
  // What the tensor is a multiple of: the tensor behind signs and constant factors.
  Multiple MultipleOf(const OutputPort& tensor) const {
    Multiple found{view_.LookThroughInserted(tensor), false};
    for (int factor = 0; factor < kMost; ++factor) {
      bool is_negative = false;
      const int index = InputOfMultiple(found.of.node, &is_negative);
      if (index < 0) break;
      found.of = view_.LookThroughInserted(view_.fanin(found.of.node)[index]);
      found.is_negative = found.is_negative != is_negative;
    }
    return found;
  }

  // The input of which the node yields a multiple by a number; -1 if it does not.
  int InputOfMultiple(int id, bool* is_negative) const {
    const std::string& op = view_.node(id).op();
    const auto inputs = view_.fanin(id);
    if (op == "Neg" && inputs.size() == 1) {
      *is_negative = true;
      return 0;
    }
    if (inputs.size() != 2) return -1;
    if (op == "Mul" && ReadsNumber(inputs[0], is_negative)) return 1;
    return (op == "Mul" || Divides(op)) && ReadsNumber(inputs[1], is_negative) ? 0 : -1;
  }

  bool ReadsNumber(const OutputPort& tensor, bool* is_negative) const {
    const tensorflow::NodeDef& node = view_.node(view_.LookThroughInserted(tensor).node);
    const auto value = node.attr().find("value");
    FloatValues floats;
    if (node.op() != "Const" || value == node.attr().end() ||
        !floats.Read(value->second.tensor()) || floats.size() != 1 || floats[0] == 0) {
      return false;
    }
    *is_negative = floats[0] < 0;
    return true;
  }

  // Exp, or what may grow as fast.
  bool IsExp(const OutputPort& tensor) const {
    const std::string& op = view_.node(tensor.node).op();
    return op == "Exp" || op == "Expm1" || op == "Pow";
  }

  // Whether the value is multiplied by an Exp, perhaps after sums and other products.
  bool MeetsExp(int id, int left) const {
    if (left == 0) return false;
    bool meets = false;
    view_.VisitThroughInserted(view_.fanout(id), [&](const InputPort& use) {
      const std::string& op = view_.node(use.node).op();
      const auto inputs = view_.fanin(use.node);
      const bool is_product = op == "Mul" && inputs.size() == 2;
      meets |= is_product && IsExp(MultipleOf(inputs[1 - use.index]).of);
      if (!meets && (is_product || AddsOrSubtracts(op) || MovesValues(op))) {
        meets |= MeetsExp(use.node, left - 1);
      }
    });
    return meets;
  }

  const GraphView& view_;
};

}  // namespace

bool IsGatedTail(const GraphView& view, int id) { return Tails(view).IsGated(id); }

}  // namespace npu_precision
