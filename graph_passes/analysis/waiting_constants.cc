#include "graph_passes/analysis/waiting_constants.h"

#include <algorithm>
#include <utility>

#include "graph_passes/analysis/effects.h"
#include "graph_passes/analysis/loop_pivots.h"
#include "graph_passes/graph/control_inputs.h"
#include "graph_passes/graph/op_set.h"
#include "graph_passes/graph/op_traits.h"

namespace npu_precision {
namespace {

// One bit for each of some effects.
using Effects = tensorflow::uint64;
constexpr size_t kEffectsAtOnce = 64;

class Finder {
 public:
  explicit Finder(const GraphView& view)
      : view_(view),
        pivots_(view),
        constants_(view, "Const"),
        identities_(view, "Identity"),
        merges_(view, IsMerge),
        next_iterations_(view, "NextIteration"),
        copies_constant_(view.size(), false),
        is_needed_(view.size(), false) {}

  std::vector<bool> Run() {
    SortNodes();
    FindCopies();
    for (size_t first = 0; first < effects_.size() && !waiting_.empty(); first += kEffectsAtOnce) {
      Propagate(first);
      Compare();
    }
    return std::move(is_needed_);
  }

 private:
  // In topological order, but for what closes a loop. The nodes of other cycles, which only a
  // damaged graph has, are left out: nothing comes after them.
  void SortNodes() {
    std::vector<std::vector<int>> after(view_.size());
    std::vector<int> missing(view_.size(), 0);
    const auto connect = [&](int from, int to) {
      if (ClosesLoop(from, to)) return;
      after[from].push_back(to);
      ++missing[to];
    };
    for (int id = 0; id < view_.size(); ++id) {
      for (const OutputPort& from : view_.fanin(id)) connect(from.node, id);
      VisitControlInputs(view_, id, [&](int, int from) { connect(from, id); });
    }
    for (int id = 0; id < view_.size(); ++id) {
      if (missing[id] == 0) order_.push_back(id);
    }
    for (size_t i = 0; i < order_.size(); ++i) {
      for (int id : after[order_[i]]) {
        if (--missing[id] == 0) order_.push_back(id);
      }
    }
  }

  void FindCopies() {
    for (int id : order_) {
      copies_constant_[id] =
          constants_.Has(id) || (identities_.Has(id) && view_.num_fanin(id) > 0 &&
                                 copies_constant_[view_.fanin(id)[0].node]);
      if (copies_constant_[id] && HasControlInputs(view_, id)) waiting_.push_back(id);
      if (HasOrderedEffect(id)) effects_.push_back(id);
    }
  }

  // A handle, or an argument, does nothing. What earlier iterations did comes before the Merge of
  // any variable of their loop.
  bool HasOrderedEffect(int id) const {
    return IsLoopMerge(id) || (view_.node(id).input_size() > 0 && MayHaveEffect(view_, id));
  }

  bool ClosesLoop(int from, int to) const { return next_iterations_.Has(from) && merges_.Has(to); }

  bool IsLoopMerge(int id) const {
    if (!merges_.Has(id)) return false;
    const auto inputs = view_.fanin(id);
    return std::any_of(inputs.begin(), inputs.end(), [this](const OutputPort& input) {
      return next_iterations_.Has(input.node);
    });
  }

  void Propagate(size_t first) {
    may_follow_.assign(view_.size(), 0);
    must_follow_.assign(view_.size(), 0);
    const size_t count = std::min(kEffectsAtOnce, effects_.size() - first);
    for (size_t k = 0; k < count; ++k) {
      may_follow_[effects_[first + k]] = must_follow_[effects_[first + k]] = Effects{1} << k;
    }
    for (int id : order_) {
      must_follow_[id] |= merges_.Has(id) ? OfAnyInput(id) : OfAllInputs(id);
      for (const OutputPort& from : view_.fanin(id)) {
        if (!ClosesLoop(from.node, id)) may_follow_[id] |= may_follow_[from.node];
      }
      VisitControlInputs(view_, id, [&](int, int from) {
        may_follow_[id] |= may_follow_[from];
        must_follow_[id] |= must_follow_[from];
      });
    }
  }

  Effects OfAllInputs(int id) const {
    Effects effects = 0;
    for (const OutputPort& from : view_.fanin(id)) effects |= must_follow_[from.node];
    return effects;
  }

  // Only one of the inputs arrives, and the first to arrive at a loop comes from outside.
  Effects OfAnyInput(int id) const {
    Effects effects = ~Effects{0};
    for (const OutputPort& from : view_.fanin(id)) {
      if (!ClosesLoop(from.node, id)) effects &= must_follow_[from.node];
    }
    return effects;
  }

  void Compare() {
    for (int id : waiting_) {
      if (is_needed_[id]) continue;
      Effects effects = 0;
      VisitControlInputs(view_, id, [&](int, int from) {
        if (!pivots_.IsPivot(from)) effects |= may_follow_[from];
      });
      is_needed_[id] = effects != 0 && HasReaderWithout(id, effects);
    }
  }

  bool HasReaderWithout(int id, Effects effects) const {
    struct Copy {
      int id;
      Effects effects;
    };
    std::vector<Copy> copies = {{id, effects}};
    while (!copies.empty()) {
      const Copy copy = copies.back();
      copies.pop_back();
      for (const InputPort& use : view_.fanout(copy.id)) {
        const Effects missing = copy.effects & ~OfOtherInputs(use.node);
        if (missing == 0) continue;
        if (!copies_constant_[use.node]) return true;
        copies.push_back({use.node, missing});
      }
    }
    return false;
  }

  // The effects that come before the node even if its constants were gone.
  Effects OfOtherInputs(int id) const {
    Effects effects = 0;
    if (!merges_.Has(id)) {
      for (const OutputPort& from : view_.fanin(id)) {
        if (!copies_constant_[from.node]) effects |= must_follow_[from.node];
      }
    }
    VisitControlInputs(view_, id, [&](int, int from) { effects |= must_follow_[from]; });
    return effects;
  }

  const GraphView& view_;
  const LoopPivots pivots_;
  const OpSet constants_, identities_, merges_, next_iterations_;
  std::vector<int> order_;             // ids
  std::vector<int> effects_;           // ids
  std::vector<int> waiting_;           // ids of constants and copies that have control inputs
  std::vector<bool> copies_constant_;  // by node id: a Const, or an Identity behind one
  std::vector<bool> is_needed_;        // by node id
  // By node id: the effects that the node may come after, and those that it always comes after.
  std::vector<Effects> may_follow_, must_follow_;
};

}  // namespace

std::vector<bool> FindWaitingConstants(const GraphView& view) { return Finder(view).Run(); }

}  // namespace npu_precision
