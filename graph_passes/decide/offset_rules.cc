#include "graph_passes/decide/offset_rules.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "absl/strings/match.h"
#include "graph_passes/analysis/counting_constants.h"
#include "graph_passes/analysis/few_values.h"
#include "graph_passes/graph/op_set.h"
#include "graph_passes/graph/op_traits.h"

namespace npu_precision {
namespace {

// Next to such an offset, bfloat16 has steps of 1/8 and float16 of 1/64. Activations such as a hard
// swish add at most 6.
constexpr float kLargeOffset = 16;

constexpr int kNotSeen = -1;

// Its result is as large as an input.
bool StaysLarge(const std::string& op) {
  return AddsOrSubtracts(op) || op == "AddN" || op == "Mean" || SelectsValues(op);
}

// It takes a mean away from its input.
bool Centres(const std::string& op) { return absl::StartsWith(op, "FusedBatchNorm"); }

class Rules {
 public:
  Rules(const GraphView& view, const ConstantValues& values, const DecideContext& context,
        const std::vector<bool>& ends_path)
      : view_(view),
        values_(values),
        context_(context),
        ends_path_(ends_path),
        moves_values_(view, MovesValues),
        matrix_(view, IsMatrixOrConvolution),
        adds_(view, AddsOrSubtracts),
        stays_large_(view, StaysLarge),
        centres_(view, Centres),
        seen_(view.size(), kNotSeen),
        is_kept_(view.num_groups(), false) {}

  std::vector<KeptGroup> Run() {
    // The first cause of a node stays, so the order of causes must not depend on the order of the
    // nodes.
    for (int id : InOrderOfNames(view_, OpSet(view_, "Const").Ids())) {
      if (context_.fed.count(view_.node(id).name()) != 0) continue;
      const Counts counts = CountsOf(view_.node(id), values_, context_.NewDtype());
      if (counts != Counts::kNo) KeepCounts(id, counts == Counts::kCoarsely);
      if (IsLargeOffset(id)) KeepSums(id);
    }
    return keeps_;
  }

 private:
  bool IsLargeOffset(int id) const {
    const std::vector<float> values = FewValues(view_.node(id), values_);
    return values.size() == 1 && std::isfinite(values[0]) && std::fabs(values[0]) >= kLargeOffset;
  }

  // Calls visit(node, group) for the nodes that read the values of a constant, directly or after
  // other nodes moved them.
  template <typename Visit>
  void VisitReaders(int constant, const Visit& visit) {
    std::vector<int> moved = {constant};
    for (size_t i = 0; i < moved.size(); ++i) {
      view_.VisitThroughInserted(view_.fanout(moved[i]), [&](const InputPort& use) {
        const int group = view_.GroupOf(use);
        if (group == kNoGroup || ends_path_[use.node] || seen_[use.node] == constant) return;
        seen_[use.node] = constant;
        if (moves_values_.Has(use.node)) {
          moved.push_back(use.node);
        } else {
          visit(use.node, group);
        }
      });
    }
  }

  // A product with a constant that counts is a mean place, whose fraction the low type loses.
  void KeepCounts(int constant, bool is_coarse) {
    std::vector<int> large;
    VisitReaders(constant, [&](int id, int group) {
      if (!is_coarse && !matrix_.Has(id)) return;
      Keep(group, Reason::kCountingConstant, constant);
      if (!matrix_.Has(id)) large.push_back(id);
    });
    KeepLarge(std::move(large), Reason::kCountingConstant, constant);
  }

  void KeepSums(int offset) {
    std::vector<int> large;
    VisitReaders(offset, [&](int id, int group) {
      if (!adds_.Has(id)) return;
      Keep(group, Reason::kLargeOffset, offset);
      large.push_back(id);
    });
    KeepLarge(std::move(large), Reason::kLargeOffset, offset);
  }

  // Keeps what reads a large result and is as large, and what centres it. What an earlier constant
  // has reached was followed then.
  void KeepLarge(std::vector<int> large, Reason reason, int cause) {
    for (size_t i = 0; i < large.size(); ++i) {
      view_.VisitThroughInserted(view_.fanout(large[i]), [&](const InputPort& use) {
        const int group = view_.GroupOf(use);
        const bool is_centred = centres_.Has(use.node);
        if (group == kNoGroup || ends_path_[use.node] || is_kept_[group]) return;
        if (!is_centred && !stays_large_.Has(use.node)) return;
        Keep(group, reason, cause);
        if (!is_centred) large.push_back(use.node);
      });
    }
  }

  void Keep(int group, Reason reason, int cause) {
    is_kept_[group] = true;
    keeps_.push_back({group, reason, cause});
  }

  const GraphView& view_;
  const ConstantValues& values_;
  const DecideContext& context_;
  const std::vector<bool>& ends_path_;
  const OpSet moves_values_, matrix_, adds_, stays_large_, centres_;
  std::vector<int> seen_;      // by node id, the last constant whose values it reads
  std::vector<bool> is_kept_;  // by group number
  std::vector<KeptGroup> keeps_;
};

}  // namespace

std::vector<KeptGroup> OffsetRules(const GraphView& view, const ConstantValues& values,
                                   const DecideContext& context,
                                   const std::vector<bool>& ends_path) {
  return Rules(view, values, context, ends_path).Run();
}

}  // namespace npu_precision
