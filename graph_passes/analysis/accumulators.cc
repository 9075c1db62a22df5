#include "graph_passes/analysis/accumulators.h"

#include <string>
#include <unordered_map>
#include <unordered_set>

#include "graph_passes/analysis/cycles.h"
#include "graph_passes/analysis/varying_nodes.h"
#include "graph_passes/graph/op_set.h"
#include "graph_passes/graph/op_traits.h"

namespace npu_precision {
namespace {

using Names = std::unordered_set<std::string>;

// A sum that keeps 0.9 of itself each time has the weight of ten terms, so errors fade.
constexpr double kForgets = 0.9;

// How an op uses an input that comes from the previous iteration or call.
enum class Path : unsigned char { kEnds, kYields, kAdds };

// The effect of a product on one factor, which depends on the other factor.
enum class Gain : unsigned char { kForgets, kShrinks, kKeeps };

// The inputs that the op yields with a gain of 1.
struct Yields {
  Path path;
  int first, last;  // inputs, both included
};

constexpr int kAll = 1 << 20;

const std::unordered_map<std::string, Yields>& Table() {
  static const auto* table = new std::unordered_map<std::string, Yields>{
      {"Add", {Path::kAdds, 0, 1}},
      {"AddV2", {Path::kAdds, 0, 1}},
      {"AddN", {Path::kAdds, 0, kAll}},
      {"Sub", {Path::kAdds, 0, 1}},
      {"BiasAdd", {Path::kAdds, 0, 0}},
      {"Sum", {Path::kAdds, 0, 0}},
      {"Cumsum", {Path::kAdds, 0, 0}},
      {"TensorScatterAdd", {Path::kAdds, 0, 0}},
      {"TensorScatterSub", {Path::kAdds, 0, 0}},

      {"Square", {Path::kAdds, 0, 0}},
      {"Neg", {Path::kYields, 0, 0}},
      {"Abs", {Path::kYields, 0, 0}},
      {"Relu", {Path::kYields, 0, 0}},
      {"Relu6", {Path::kYields, 0, 0}},
      {"ClipByValue", {Path::kYields, 0, 0}},
      {"Maximum", {Path::kYields, 0, 1}},
      {"Minimum", {Path::kYields, 0, 1}},
      {"Max", {Path::kYields, 0, 0}},
      {"Min", {Path::kYields, 0, 0}},
      {"Mean", {Path::kYields, 0, 0}},
      {"Select", {Path::kYields, 1, 2}},
      {"SelectV2", {Path::kYields, 1, 2}},
      {"Slice", {Path::kYields, 0, 0}},
      {"StridedSlice", {Path::kYields, 0, 0}},
      {"GatherV2", {Path::kYields, 0, 0}},
      {"GatherNd", {Path::kYields, 0, 0}},
      {"Pack", {Path::kYields, 0, kAll}},
      {"ConcatV2", {Path::kYields, 0, kAll}},
      {"TensorScatterUpdate", {Path::kYields, 0, 2}},
  };
  return *table;
}

// The op's values vary from iteration to iteration, like those of a gate or a layer of a model.
bool IsOfModel(const std::string& op) {
  static const auto* names =
      new Names{"Sigmoid", "Tanh", "Softmax", "Softsign", "FusedBatchNormV3"};
  return names->count(op) != 0 || IsMatrixOrConvolution(op) || HasElementDtype(op);
}

// TensorFlow 1.15 presents the arguments of a function as placeholders.
bool IsPlaceholder(const std::string& op) { return op == "Placeholder"; }

class Finder {
 public:
  Finder(const GraphView& view, const std::vector<ValueRange>& ranges,
         const std::set<std::string>& fed, const std::vector<bool>& ends_path)
      : view_(view),
        ranges_(ranges),
        varies_(VaryingNodes(view, fed)),
        ends_path_(ends_path),
        moves_values_(view, MovesValues),
        multiplies_(view, Multiplies),
        divides_(view, Divides),
        of_model_(view, IsOfModel),
        next_(view, "NextIteration"),
        arguments_(view, IsArgument),
        placeholders_(view, IsPlaceholder),
        results_(view, IsResult),
        forgets_(view.size(), Known::kNo),
        grows_(view.size(), false) {
    for (int op = 0; op < view.num_ops(); ++op) {
      const auto found = Table().find(view.op_numbered(op).name);
      of_op_.push_back(found == Table().end() ? Yields{Path::kEnds, 0, -1} : found->second);
    }
  }

  std::vector<Accumulator> Run(BodyRole role) {
    std::vector<bool> in_loop(view_.size(), false), in_function(view_.size(), false);
    if (!next_.IsEmpty()) FindInLoops(&in_loop);
    if (!results_.IsEmpty() && role != BodyRole::kBranch) FindInFunction(&in_function);
    std::vector<Accumulator> found;
    for (int id = 0; id < view_.size(); ++id) {
      if (!in_loop[id] && !in_function[id]) continue;
      found.push_back({id, in_loop[id] || role == BodyRole::kIterated});
    }
    return found;
  }

 private:
  enum class Known : char { kNo, kForgets, kKeeps };

  // The effect of a node on its input `index`.
  Path PathInto(const InputPort& use) {
    const int id = use.node;
    if (view_.op_def(id) == nullptr || ends_path_[id]) return Path::kEnds;
    if (moves_values_.Has(id)) return IsValue(use) ? Path::kYields : Path::kEnds;
    if (view_.IsTransparent(id)) return Path::kYields;
    if (multiplies_.Has(id) || divides_.Has(id)) {
      const Gain gain = GainOf(use);
      const bool ends = gain == Gain::kForgets || (gain == Gain::kShrinks && !grows_[id]);
      return ends ? Path::kEnds : Path::kAdds;
    }
    const Yields& yields = of_op_[view_.op(id)];
    const bool is_yielded = use.index >= yields.first && use.index <= yields.last;
    return is_yielded && IsValue(use) ? yields.path : Path::kEnds;
  }

  bool IsValue(const InputPort& use) const { return view_.GroupOf(use) != kNoGroup; }

  // The effect of the product or ratio on the tensor that `use` reads.
  Gain GainOf(const InputPort& use) {
    const bool divides = divides_.Has(use.node);
    if (divides && use.index == 1) return Gain::kForgets;
    const OutputPort factor = view_.LookThroughInserted(view_.fanin(use.node)[1 - use.index]);
    const OutputPort value = view_.LookThroughInserted(view_.fanin(use.node)[use.index]);
    if (factor.node == value.node) return Gain::kKeeps;  // a square
    if (FactorsRange(factor, divides).Magnitude() < kForgets) return Gain::kShrinks;
    return varies_[factor.node] && ComesFromModel(factor.node) ? Gain::kForgets : Gain::kKeeps;
  }

  ValueRange FactorsRange(const OutputPort& factor, bool divides) const {
    const ValueRange& range = ranges_[factor.node];
    return divides ? DividedBy(ValueRange::Of(1), range) : range;
  }

  // Whether the product may make the value that `use` reads larger.
  bool MayGrow(const InputPort& use) {
    if (!multiplies_.Has(use.node) && !divides_.Has(use.node)) return false;
    if (GainOf(use) != Gain::kKeeps) return false;
    const OutputPort factor = view_.LookThroughInserted(view_.fanin(use.node)[1 - use.index]);
    return FactorsRange(factor, divides_.Has(use.node)).Magnitude() > 1;
  }

  // A factor that shrinks a value forgets it, unless another op on the same cycle makes the value
  // larger: the gain of (99 * mean + x) / 100 is 0.99.
  void FindGrowing() {
    grows_.assign(view_.size(), true);
    const std::vector<int> component = Components();
    std::vector<bool> grows(view_.size(), false);
    for (int id = 0; id < view_.size(); ++id) {
      for (const InputPort& use : view_.fanout(id)) {
        if (component[id] == component[use.node] && MayGrow(use)) grows[component[id]] = true;
      }
    }
    for (int id = 0; id < view_.size(); ++id) grows_[id] = grows[component[id]];
  }

  // Two nodes are on one cycle if and only if they are in one strongly connected component.
  std::vector<int> Components() {
    return StronglyConnected(view_.size(), [this](int id, const auto& visit) {
      for (const InputPort& use : view_.fanout(id)) {
        if (PathInto(use) != Path::kEnds) visit(use.node);
      }
    });
  }

  // Whether the value is computed from the result of a layer, a gate or a list.
  bool ComesFromModel(int id) {
    std::vector<int> nodes = {id};
    std::unordered_set<int> seen = {id};
    for (size_t i = 0; i < nodes.size(); ++i) {
      if (forgets_[nodes[i]] == Known::kForgets || of_model_.Has(nodes[i])) {
        forgets_[id] = Known::kForgets;
        return true;
      }
      if (view_.op_def(nodes[i]) == nullptr || forgets_[nodes[i]] == Known::kKeeps) continue;
      for (int k = 0; k < view_.num_inputs(nodes[i]); ++k) {
        const int from = view_.fanin(nodes[i])[k].node;
        if (IsValue({nodes[i], k}) && seen.insert(from).second) nodes.push_back(from);
      }
    }
    for (int node : seen) forgets_[node] = Known::kKeeps;
    return false;
  }

  void FindInLoops(std::vector<bool>* found) {
    FindGrowing();
    const std::vector<int> component = Components();
    std::vector<bool> accumulates(view_.size(), false);
    for (int id = 0; id < view_.size(); ++id) {
      for (const InputPort& use : view_.fanout(id)) {
        if (component[id] == component[use.node] && PathInto(use) == Path::kAdds) {
          accumulates[component[id]] = true;
        }
      }
    }
    for (int id = 0; id < view_.size(); ++id) (*found)[id] = accumulates[component[id]];
  }

  void FindInFunction(std::vector<bool>* found) {
    std::vector<int> arguments, results;
    for (int id = 0; id < view_.size(); ++id) {
      if (arguments_.Has(id) || placeholders_.Has(id)) arguments.push_back(id);
      if (results_.Has(id)) results.push_back(id);
    }
    grows_.assign(view_.size(), true);
    grows_.assign(view_.size(), GrowsBetween(From(arguments), BackFrom(results)));
    const Reached forward = From(arguments), backward = BackFrom(results);
    for (int id = 0; id < view_.size(); ++id) {
      (*found)[id] =
          (forward.adds[id] && backward.any[id]) || (forward.any[id] && backward.adds[id]);
    }
  }

  // By node id: whether any path leads to the node, and whether a path that adds does.
  struct Reached {
    std::vector<bool> any, adds;
  };

  Reached From(const std::vector<int>& starts) {
    return Reach(starts, [this](int id, const auto& visit) {
      for (const InputPort& use : view_.fanout(id)) visit(use.node, PathInto(use));
    });
  }

  Reached BackFrom(const std::vector<int>& ends) {
    return Reach(ends, [this](int id, const auto& visit) {
      for (int k = 0; k < view_.num_inputs(id); ++k) {
        const Path path = results_.Has(id) ? Path::kYields : PathInto({id, k});
        visit(view_.fanin(id)[k].node, path);
      }
    });
  }

  bool GrowsBetween(const Reached& forward, const Reached& backward) {
    for (int id = 0; id < view_.size(); ++id) {
      for (const InputPort& use : view_.fanout(id)) {
        if (forward.any[id] && backward.any[use.node] && MayGrow(use)) return true;
      }
    }
    return false;
  }

  template <typename Neighbours>
  Reached Reach(const std::vector<int>& starts, const Neighbours& neighbours) const {
    Reached reached = {std::vector<bool>(view_.size()), std::vector<bool>(view_.size())};
    std::vector<std::pair<int, bool>> open;
    const auto push = [&](int id, bool adds) {
      std::vector<bool>& here = adds ? reached.adds : reached.any;
      if (here[id]) return;
      here[id] = true;
      open.emplace_back(id, adds);
    };
    for (int id : starts) push(id, false);
    while (!open.empty()) {
      const std::pair<int, bool> last = open.back();
      open.pop_back();
      neighbours(last.first, [&](int id, Path path) {
        if (path != Path::kEnds) push(id, last.second || path == Path::kAdds);
      });
    }
    return reached;
  }

  const GraphView& view_;
  const std::vector<ValueRange>& ranges_;
  const std::vector<bool> varies_;
  const std::vector<bool>& ends_path_;
  const OpSet moves_values_, multiplies_, divides_, of_model_, next_, arguments_, placeholders_,
      results_;
  std::vector<Known> forgets_;  // by node id: the result of ComesFromModel
  std::vector<Yields> of_op_;   // by the number of the op in the view
  // By node id: on a cycle with a product that may make a value larger.
  std::vector<bool> grows_;
};

}  // namespace

std::vector<Accumulator> Accumulators(const GraphView& view, const std::vector<ValueRange>& ranges,
                                      const std::set<std::string>& fed,
                                      const std::vector<bool>& ends_path, BodyRole role) {
  return Finder(view, ranges, fed, ends_path).Run(role);
}

}  // namespace npu_precision
