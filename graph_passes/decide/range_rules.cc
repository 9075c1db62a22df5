#include "graph_passes/decide/range_rules.h"

#include <cmath>

#include "graph_passes/analysis/few_values.h"
#include "graph_passes/graph/low_types.h"
#include "graph_passes/graph/op_set.h"
#include "graph_passes/graph/op_traits.h"

namespace npu_precision {
namespace {

using tensorflow::DataType;

constexpr int kNotSeen = -1;

class Rules {
 public:
  Rules(const GraphView& view, const ConstantValues& values, const std::vector<ValueRange>& ranges,
        const DecideContext& context, const std::vector<bool>& ends_path)
      : view_(view),
        ranges_(ranges),
        context_(context),
        ends_path_(ends_path),
        moves_values_(view, MovesValues),
        matrix_(view, IsMatrixOrConvolution),
        seen_(view.size(), kNotSeen) {
    // The first cause of a node stays, so the order of causes must not depend on the order of the
    // nodes.
    for (int id : InOrderOfNames(view, OpSet(view, "Const").Ids())) {
      if (context.fed.count(view.node(id).name()) == 0 && IsGuard(id, values))
        guards_.push_back(id);
    }
  }

  std::vector<KeptGroup> Run() {
    for (int guard : guards_) KeepReaders(guard);
    for (int id = 0; id < view_.size(); ++id) {
      if (view_.op_def(id) == nullptr || view_.IsTransparent(id) || moves_values_.Has(id)) continue;
      KeepOutOfRange(id);
    }
    return keeps_;
  }

 private:
  bool IsGuard(int id, const ConstantValues& values) const {
    for (float value : FewValues(view_.node(id), values)) {
      if (LosesMeaning(value, context_.NewDtype())) return true;
    }
    return false;
  }

  // Keeps the nodes that compute with the values of a constant, directly or after other nodes moved
  // them.
  void KeepReaders(int guard) {
    std::vector<int> moved = {guard};
    for (size_t i = 0; i < moved.size(); ++i) {
      view_.VisitThroughInserted(view_.fanout(moved[i]), [&](const InputPort& use) {
        const int group = view_.GroupOf(use);
        if (group == kNoGroup || seen_[use.node] == guard) return;
        if (moves_values_.Has(use.node)) {
          if (ends_path_[use.node]) return;
          seen_[use.node] = guard;
          moved.push_back(use.node);
        } else if (!matrix_.Has(use.node)) {
          keeps_.push_back({group, Reason::kGuardConstant, guard});
        }
      });
    }
  }

  void KeepOutOfRange(int id) {
    for (int k = 0; k < view_.num_inputs(id); ++k) {
      const OutputPort from = view_.LookThroughInserted(view_.fanin(id)[k]);
      const int group = view_.GroupOf(InputPort{id, k});
      if (group != kNoGroup && LeavesRange(from.node)) {
        keeps_.push_back({group, Reason::kLeavesRange, from.node});
      }
    }
    if (!LeavesRange(id)) return;
    for (int k = 0; k < view_.num_outputs(id); ++k) {
      const int group = view_.GroupOf(OutputPort{id, k});
      if (group != kNoGroup) keeps_.push_back({group, Reason::kLeavesRange});
    }
  }

  // An infinite end means that nothing is known, or that infinity is intended.
  bool LeavesRange(int id) const {
    const ValueRange& range = ranges_[id];
    const double largest = LargestOf(context_.NewDtype());
    const auto leaves = [largest](double end) {
      return std::isfinite(end) && std::fabs(end) > largest;
    };
    return leaves(range.low) || leaves(range.high);
  }

  const GraphView& view_;
  const std::vector<ValueRange>& ranges_;
  const DecideContext& context_;
  const std::vector<bool>& ends_path_;
  const OpSet moves_values_, matrix_;
  std::vector<int> guards_;  // node ids
  std::vector<int> seen_;    // by node id, the last guard whose values it moves
  std::vector<KeptGroup> keeps_;
};

}  // namespace

bool LosesMeaning(float value, DataType low_type) {
  if (value == 0 || std::isnan(value)) return false;
  const float rounded = RoundedTo(low_type, value);
  if (rounded == value) return std::fabs(value) < SmallestNormalOf(low_type);
  return rounded == 0 || std::fabs(rounded) == 1 || std::isinf(rounded) ||
         std::fabs(value) < SmallestNormalOf(low_type);
}

std::vector<KeptGroup> RangeRules(const GraphView& view, const ConstantValues& values,
                                  const std::vector<ValueRange>& ranges,
                                  const DecideContext& context,
                                  const std::vector<bool>& ends_path) {
  return Rules(view, values, ranges, context, ends_path).Run();
}

}  // namespace npu_precision
