#include "graph_passes/decide/value_updates.h"

#include <algorithm>
#include <string>

#include "graph_passes/analysis/few_values.h"
#include "graph_passes/graph/op_set.h"
#include "graph_passes/graph/op_traits.h"

namespace npu_precision {
namespace {

class Finder {
 public:
  Finder(const GraphView& view, const ConstantValues& values, const DecideContext& context,
         const std::vector<bool>& ends_path)
      : view_(view),
        values_(values),
        context_(context),
        ends_path_(ends_path),
        moves_values_(view, MovesValues),
        products_(view, IsMatrixOrConvolution),
        sources_(view, IsNeutralSource),
        constants_(view, "Const"),
        sums_(view, AddsOrSubtracts),
        multiplies_(view, Multiplies),
        divides_(view, Divides),
        is_kept_(view.size(), false) {}

  std::vector<KeptGroup> Run() {
    for (int source : Sources()) {
      std::vector<int> now = {source};
      for (size_t i = 0; i < now.size(); ++i) {
        view_.VisitThroughInserted(view_.fanout(now[i]), [&](const InputPort& use) {
          if (view_.GroupOf(use) == kNoGroup || ends_path_[use.node] || is_kept_[use.node]) return;
          if (moves_values_.Has(use.node)) {
            is_kept_[use.node] = true;
            now.push_back(use.node);
          } else if (IsStep(use)) {
            KeepNode(use.node, source);
            KeepNode(StepOf(use), source);
            now.push_back(use.node);
          }
        });
      }
    }
    return keeps_;
  }

 private:
  // The sources that matrix products read, by name: the first cause of a node stays.
  std::vector<int> Sources() const {
    std::vector<bool> is_read(view_.size(), false);
    std::vector<int> found;
    for (int product : products_.Ids()) {
      for (const OutputPort& factor : view_.fanin(product)) {
        const int from = Moved(factor);
        if (sources_.Has(from) && !is_read[from]) found.push_back(from);
        is_read[from] = true;
      }
    }
    return InOrderOfNames(view_, found);
  }

  // Whether the node adds a number of steps to what `use` reads.
  bool IsStep(const InputPort& use) const {
    if (!sums_.Has(use.node) || view_.num_fanin(use.node) != 2) return false;
    if (view_.node(use.node).op() == "Sub" && use.index != 0) return false;
    const int step = StepOf(use);
    if (view_.num_fanin(step) != 2 || ends_path_[step]) return false;
    if (divides_.Has(step)) return IsNumber(view_.fanin(step)[1]);
    return multiplies_.Has(step) &&
           (IsNumber(view_.fanin(step)[0]) || IsNumber(view_.fanin(step)[1]));
  }

  int StepOf(const InputPort& use) const { return Moved(view_.fanin(use.node)[1 - use.index]); }

  int Moved(const OutputPort& tensor) const {
    const auto moves = [this](int id) { return view_.IsTransparent(id) || moves_values_.Has(id); };
    return view_.LookThrough(tensor, moves).node;
  }

  bool IsNumber(const OutputPort& tensor) const {
    const OutputPort from = view_.LookThroughInserted(tensor);
    if (!sources_.Has(from.node)) return false;
    const tensorflow::NodeDef& node = view_.node(from.node);
    if (constants_.Has(from.node)) return npu_precision::IsNumber(node, values_);
    return context_.elements != nullptr && context_.elements(node.name(), from.port) == 1;
  }

  void KeepNode(int id, int source) {
    is_kept_[id] = true;
    const int group = view_.GroupOf(OutputPort{id, 0});
    if (group != kNoGroup) keeps_.push_back({group, Reason::kUpdatesValue, source});
  }

  const GraphView& view_;
  const ConstantValues& values_;
  const DecideContext& context_;
  const std::vector<bool>& ends_path_;
  const OpSet moves_values_, products_, sources_, constants_, sums_, multiplies_, divides_;
  std::vector<bool> is_kept_;  // by node id
  std::vector<KeptGroup> keeps_;
};

}  // namespace

std::vector<KeptGroup> ValueUpdates(const GraphView& view, const ConstantValues& values,
                                    const DecideContext& context,
                                    const std::vector<bool>& ends_path) {
  return Finder(view, values, context, ends_path).Run();
}

}  // namespace npu_precision
