#include "graph_passes/analysis/accumulators.h"

#include <algorithm>
#include <string>
#include <utility>

#include "graph_passes/analysis/cycles.h"
#include "graph_passes/analysis/gains.h"
#include "graph_passes/analysis/next_arguments.h"
#include "graph_passes/analysis/unrolled_steps.h"
#include "graph_passes/graph/op_set.h"
#include "graph_passes/graph/op_traits.h"

namespace npu_precision {
namespace {

// TensorFlow 1.15 presents the arguments of a function as placeholders.
bool IsPlaceholder(const std::string& op) { return op == "Placeholder"; }

class Finder {
 public:
  Finder(const GraphView& view, Gains* gains)
      : view_(view),
        gains_(*gains),
        next_(view, "NextIteration"),
        arguments_(view, IsArgument),
        placeholders_(view, IsPlaceholder),
        results_(view, IsResult),
        sums_(view, AddsOrSubtracts) {}

  std::vector<Accumulator> Run(BodyRole role) {
    std::vector<bool> in_loop(view_.size(), false), in_function(view_.size(), false);
    if (!next_.IsEmpty()) FindInLoops(false, &in_loop);
    if (!results_.IsEmpty() && role != BodyRole::kBranch) FindInFunction(&in_function);
    if (!next_.IsEmpty() || role == BodyRole::kLoopBody) FindRecurrences(role, &in_loop);
    std::vector<Accumulator> found;
    for (int id = 0; id < view_.size(); ++id) {
      if (!in_loop[id] && !in_function[id]) continue;
      found.push_back({id, in_loop[id] || IsIterated(role)});
    }
    return found;
  }

 private:
  // A factor that shrinks a value forgets it, unless another op on the same cycle makes the value
  // larger: the gain of (99 * mean + x) / 100 is 0.99.
  // So does the gain of 0.5 x + 0.5 Ax, in a loop that passes products.
  void FindGrowing(bool passes_products) {
    gains_.set_grows(std::vector<bool>(view_.size(), true));
    const std::vector<int> component = Components();
    std::vector<bool> grows(view_.size(), false);
    for (int id = 0; passes_products && id < view_.size(); ++id) {
      const auto is_on_cycle = [&](const OutputPort& from) {
        return component[from.node] == component[id];
      };
      const auto fanin = view_.fanin(id);
      if (sums_.Has(id) && std::all_of(fanin.begin(), fanin.end(), is_on_cycle)) {
        grows[component[id]] = true;
      }
    }
    for (int id = 0; id < view_.size(); ++id) {
      for (const InputPort& use : view_.fanout(id)) {
        const bool is_on_cycle = component[id] == component[use.node];
        if (is_on_cycle && gains_.MayGrow(use)) grows[component[id]] = true;
      }
    }
    std::vector<bool> of_node(view_.size());
    for (int id = 0; id < view_.size(); ++id) of_node[id] = grows[component[id]];
    gains_.set_grows(std::move(of_node));
  }

  // Two nodes are on one cycle if and only if they are in one strongly connected component.
  std::vector<int> Components() {
    return StronglyConnected(view_.size(), [this](int id, const auto& visit) {
      for (const InputPort& use : view_.fanout(id)) {
        const bool is_returned = !next_arguments_.empty() && results_.Has(use.node);
        if (is_returned || gains_.PathInto(use) != Path::kEnds) visit(use.node);
      }
      if (!next_arguments_.empty() && next_arguments_[id] != kNoArgument) {
        visit(next_arguments_[id]);
      }
    });
  }

  // Finds values that come back through products as well.
  void FindRecurrences(BodyRole role, std::vector<bool>* found) {
    if (role == BodyRole::kLoopBody) next_arguments_ = NextArguments(view_);
    std::vector<bool> recurs(view_.size(), false);
    gains_.set_passes_products(true);
    FindInLoops(true, &recurs);
    gains_.set_passes_products(false);
    next_arguments_.clear();
    for (int id = 0; id < view_.size(); ++id) (*found)[id] = (*found)[id] || recurs[id];
  }

  void FindInLoops(bool passes_products, std::vector<bool>* found) {
    FindGrowing(passes_products);
    const std::vector<int> component = Components();
    std::vector<bool> accumulates(view_.size(), false);
    for (int id = 0; id < view_.size(); ++id) {
      for (const InputPort& use : view_.fanout(id)) {
        if (component[id] == component[use.node] && gains_.PathInto(use) == Path::kAdds) {
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
    gains_.set_grows(std::vector<bool>(view_.size(), true));
    const bool grows = GrowsBetween(From(arguments), BackFrom(results));
    gains_.set_grows(std::vector<bool>(view_.size(), grows));
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
      for (const InputPort& use : view_.fanout(id)) visit(use.node, gains_.PathInto(use));
    });
  }

  Reached BackFrom(const std::vector<int>& ends) {
    return Reach(ends, [this](int id, const auto& visit) {
      for (int k = 0; k < view_.num_inputs(id); ++k) {
        const Path path = results_.Has(id) ? Path::kYields : gains_.PathInto({id, k});
        visit(view_.fanin(id)[k].node, path);
      }
    });
  }

  bool GrowsBetween(const Reached& forward, const Reached& backward) {
    for (int id = 0; id < view_.size(); ++id) {
      for (const InputPort& use : view_.fanout(id)) {
        if (forward.any[id] && backward.any[use.node] && gains_.MayGrow(use)) return true;
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
  Gains& gains_;
  const OpSet next_, arguments_, placeholders_, results_, sums_;
  std::vector<int> next_arguments_;  // see NextArguments(); empty unless paths follow them
};

}  // namespace

std::vector<Accumulator> Accumulators(const GraphView& view, const ConstantValues& values,
                                      const std::vector<ValueRange>& ranges,
                                      const std::set<std::string>& fed,
                                      const std::vector<bool>& ends_path, BodyRole role) {
  Gains gains(view, ranges, fed, ends_path);
  std::vector<Accumulator> found = Finder(view, &gains).Run(role);
  for (int id : UnrolledSteps(view, values, &gains)) found.push_back({id, true});
  return found;
}

}  // namespace npu_precision
