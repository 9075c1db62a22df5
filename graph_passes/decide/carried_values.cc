#include "graph_passes/decide/carried_values.h"

#include <algorithm>
#include <string>
#include <utility>

#include "graph_passes/analysis/error_paths.h"
#include "graph_passes/analysis/next_arguments.h"
#include "graph_passes/graph/op_set.h"
#include "graph_passes/graph/op_traits.h"

namespace npu_precision {
namespace {

// Handles hide what is behind them. IdentityN has a dtype for each input.
bool Carries(const std::string& op) {
  return SelectsValues(op) && !ReadsShapesOnly(op) && !HasElementDtype(op) && op != "IdentityN";
}

// With a number for each element, as for a place in pixels.
bool Scales(const std::string& op) { return AddsOrSubtracts(op) || Multiplies(op) || Divides(op); }

class Finder {
 public:
  Finder(const GraphView& view, const DecideContext& context, const std::vector<bool>& ends_path)
      : view_(view),
        context_(context),
        ends_path_(ends_path),
        carries_(view, Carries),
        scales_(view, Scales),
        merges_(view, IsMerge),
        next_(view, "NextIteration"),
        products_(view, IsMatrixOrConvolution),
        casts_(view, "Cast") {}

  std::vector<KeptGroup> Run() {
    from_products_ = ReachedFrom(products_.Ids());
    const std::vector<bool> is_known = ReachedFrom(Known());
    leaves_ = Leaving();
    std::vector<int> values;
    for (int id = 0; id < view_.size(); ++id) {
      if (is_known[id] && !from_products_[id]) values.push_back(id);
    }
    for (int value : InOrderOfNames(view_, std::move(values))) KeepFrom(value);
    return std::move(keeps_);
  }

 private:
  // What the caller gives, and whole numbers.
  std::vector<int> Known() const {
    const OpSet sources(view_, IsNeutralSource), weights(view_, YieldsWeight);
    std::vector<bool> is_loops(view_.size(), false);
    if (IsIterated(context_.body_role)) {
      for (int argument : ArgumentsOf(view_)) is_loops[argument] = true;
    }
    std::vector<int> known;
    for (int id = 0; id < view_.size(); ++id) {
      const bool is_given = sources.Has(id) && !weights.Has(id) && !is_loops[id];
      if (is_given || IsWholeNumber(id)) known.push_back(id);
    }
    return known;
  }

  // A Cast from integers.
  bool IsWholeNumber(int id) const {
    if (!casts_.Has(id) || view_.num_fanin(id) != 1) return false;
    const tensorflow::DataType from = view_.dtype(view_.fanin(id)[0]);
    return !HasErrors(from) && from != tensorflow::DT_BOOL;
  }

  // By node id: whether the node is one of `ids`, or computes floats from them.
  std::vector<bool> ReachedFrom(std::vector<int> ids) const {
    std::vector<bool> reached(view_.size(), false);
    for (int id : ids) reached[id] = true;
    for (size_t i = 0; i < ids.size(); ++i) {
      for (const InputPort& use : view_.fanout(ids[i])) {
        if (reached[use.node] || !HasErrors(view_.dtype(use))) continue;
        reached[use.node] = true;
        ids.push_back(use.node);
      }
    }
    return reached;
  }

  // Whether values that no product made pass the node as they are, or scaled by others of these.
  bool Passes(int id) const {
    const auto fanin = view_.fanin(id);
    const auto made = [this](const OutputPort& from) { return from_products_[from.node]; };
    if (scales_.Has(id)) return std::count_if(fanin.begin(), fanin.end(), made) < 2;
    const auto next = [this](const OutputPort& from) { return next_.Has(from.node); };
    // The variables of a loop are no such values.
    if (merges_.Has(id) && std::any_of(fanin.begin(), fanin.end(), next)) return false;
    return carries_.Has(id);
  }

  // By node id: whether the node carries values to where they leave the graph.
  std::vector<bool> Leaving() const {
    const OpSet results(view_, IsResult);
    std::vector<bool> leaves(view_.size(), false);
    std::vector<int> open;
    const auto push = [&](const OutputPort& tensor) {
      const int id = view_.LookThroughInserted(tensor).node;
      if (leaves[id] || !Passes(id) || ends_path_[id]) return;
      leaves[id] = true;
      open.push_back(id);
    };
    for (int id = 0; id < view_.size(); ++id) {
      if (context_.preserved.count(view_.node(id).name()) != 0) push({id, 0});
      for (int k = 0; results.Has(id) && k < view_.num_fanin(id); ++k) push(view_.fanin(id)[k]);
    }
    for (size_t i = 0; i < open.size(); ++i) {
      for (const OutputPort& from : view_.fanin(open[i])) push(from);
    }
    return leaves;
  }

  void KeepFrom(int value) {
    std::vector<int> open = {value};
    for (size_t i = 0; i < open.size(); ++i) {
      view_.VisitThroughInserted(view_.fanout(open[i]), [&](const InputPort& use) {
        const bool carries = leaves_[use.node] && from_products_[use.node] && !is_kept_[use.node];
        if (!carries || !HasErrors(view_.dtype(use))) return;
        // Else the node computes with the value and a product.
        if (scales_.Has(use.node) && !from_products_[open[i]]) return;
        is_kept_[use.node] = true;
        open.push_back(use.node);
        for (int g = 0; g < view_.num_groups(use.node); ++g) {
          keeps_.push_back({view_.first_group(use.node) + g, Reason::kCarriesValue, value});
        }
      });
    }
  }

  const GraphView& view_;
  const DecideContext& context_;
  const std::vector<bool>& ends_path_;
  const OpSet carries_, scales_, merges_, next_, products_, casts_;
  std::vector<bool> from_products_, leaves_;  // by node id
  std::vector<bool> is_kept_ = std::vector<bool>(view_.size(), false);
  std::vector<KeptGroup> keeps_;
};

}  // namespace

std::vector<KeptGroup> CarriedValues(const GraphView& view, const DecideContext& context,
                                     const std::vector<bool>& ends_path) {
  return Finder(view, context, ends_path).Run();
}

}  // namespace npu_precision
