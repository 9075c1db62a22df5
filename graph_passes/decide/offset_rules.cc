#include "graph_passes/decide/offset_rules.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "graph_passes/analysis/counting_constants.h"
#include "graph_passes/analysis/few_values.h"
#include "graph_passes/analysis/large_offset.h"
#include "graph_passes/graph/float_values.h"
#include "graph_passes/graph/op_set.h"
#include "graph_passes/graph/op_traits.h"

namespace npu_precision {
namespace {

constexpr int kNotSeen = -1;

bool Adds(const std::string& op) { return AddsAll(op) || op == "Sub" || op == "BiasAdd"; }

// Its result is as large as an input.
bool StaysLarge(const std::string& op) { return Adds(op) || op == "Mean" || SelectsValues(op); }

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
        adds_(view, Adds),
        biases_(view, "BiasAdd"),
        stays_large_(view, StaysLarge),
        centres_(view, Centres),
        seen_(view.size(), kNotSeen),
        is_kept_(view.num_groups(), false) {}

  std::vector<KeptGroup> Run() {
    // The first cause of a node stays, so the order of causes must not depend on the order of the
    // nodes.
    for (int id : InOrderOfNames(view_, OpSet(view_, "Const").Ids())) {
      if (context_.fed.count(view_.node(id).name()) != 0) continue;
      const Counting counts = CountsOf(view_.node(id), values_, context_.NewDtype());
      if (counts == Counting::kNo) {
        KeepSums(id);
      } else {
        KeepCounts(id, counts == Counting::kCoarsely);
      }
    }
    return keeps_;
  }

 private:
  enum class Offset : unsigned char { kNone, kScalar, kTensor };

  // A large number, also a tensor of equal ones, or a tensor of many values such as a grid of
  // places. One of few values is a mask.
  Offset OffsetOf(int id) const {
    const auto is_large = [](float value) {
      return std::isfinite(value) && std::fabs(value) >= kLargeOffset;
    };
    const std::vector<float> few = FewValues(view_.node(id), values_);
    if (!few.empty()) {
      return few.size() == 1 && is_large(few[0]) ? Offset::kScalar : Offset::kNone;
    }
    const tensorflow::AttrValue* held = values_.Find(view_.node(id));
    FloatValues all;
    if (held == nullptr || !all.Read(held->tensor())) return Offset::kNone;
    for (int64_t i = 0; i < all.size(); ++i) {
      if (is_large(all[i])) return Offset::kTensor;
    }
    return Offset::kNone;
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

  // A learned bias may have large values, which are small beside what they are added to.
  void KeepSums(int offset) {
    std::vector<std::pair<int, int>> sums;
    VisitReaders(offset, [&](int id, int group) {
      if (adds_.Has(id)) sums.emplace_back(id, group);
    });
    const Offset kind = sums.empty() ? Offset::kNone : OffsetOf(offset);
    std::vector<int> large;
    for (const auto& sum : sums) {
      if (kind == Offset::kNone || (kind == Offset::kTensor && biases_.Has(sum.first))) continue;
      Keep(sum.second, Reason::kLargeOffset, offset);
      large.push_back(sum.first);
    }
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
  const OpSet moves_values_, matrix_, adds_, biases_, stays_large_, centres_;
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
