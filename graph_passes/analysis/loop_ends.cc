#include "graph_passes/analysis/loop_ends.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_set>

#include "graph_passes/analysis/cycles.h"
#include "graph_passes/analysis/error_paths.h"
#include "graph_passes/analysis/next_arguments.h"
#include "graph_passes/analysis/varying_nodes.h"
#include "graph_passes/graph/op_set.h"
#include "graph_passes/graph/op_traits.h"
#include "tensorflow/core/framework/types.pb.h"

namespace npu_precision {
namespace {

constexpr int kNoNode = -1;

using Names = std::unordered_set<std::string>;

bool Compares(const std::string& op) {
  return op == "Less" || op == "LessEqual" || op == "Greater" || op == "GreaterEqual";
}

bool IsLogical(const std::string& op) {
  static const auto* names =
      new Names{"LogicalAnd", "LogicalOr", "LogicalNot", "All", "Any", "Select", "SelectV2"};
  return names->count(op) != 0;
}

// The result is small where the input is.
bool IsMagnitude(const std::string& op) {
  static const auto* names = new Names{
      "Abs",           "Neg",  "Square",       "Sqrt",  "Max",     "Min",    "Sum",      "Mean",
      "EuclideanNorm", "Cast", "StridedSlice", "Slice", "Maximum", "Select", "SelectV2", "L2Loss"};
  return names->count(op) != 0;
}

bool IsLinear(const std::string& op) {
  static const auto* names =
      new Names{"AddN", "BiasAdd", "Pack", "ConcatV2", "GatherV2", "GatherNd", "Minimum"};
  return names->count(op) != 0 || IsMagnitude(op) || AddsOrSubtracts(op) || IsDifference(op) ||
         Multiplies(op) || Divides(op);
}

bool Moves(const std::string& op) {
  return MovesValues(op) && !HasElementDtype(op) && !ReadsShapesOnly(op);
}

class Finder {
 public:
  Finder(const GraphView& view, const std::set<std::string>& fed,
         const std::vector<bool>& ends_path)
      : view_(view),
        fed_(fed),
        ends_path_(ends_path),
        compares_(view, Compares),
        logical_(view, IsLogical),
        differences_(view, IsDifference),
        magnitudes_(view, IsMagnitude),
        linear_(view, IsLinear),
        moves_(view, Moves),
        products_(view, IsMatrixOrConvolution),
        multiplies_(view, Multiplies),
        divides_(view, Divides),
        constants_(view, "Const"),
        exits_(view, "Exit"),
        result_of_(view.size(), kNoNode) {}

  LoopEnds Run(const std::vector<ReadByCondition>& read) {
    for (int loop : InOrderOfNames(view_, OpSet(view_, "LoopCond").Ids())) {
      Begin(loop);
      Push(view_.fanin(loop)[0], Reading::kCondition, kNoNode);
      Search();
    }
    Begin(kNoNode);
    const std::vector<int> results = OpSet(view_, IsResult).Ids();
    if (read.empty() && results.size() == 1) {
      is_condition_ = true;
      Push(view_.fanin(results[0])[0], Reading::kCondition, kNoNode);
      Search();
    } else if (!read.empty()) {
      next_ = NextArguments(view_);
      for (int result : results) {
        if (next_[result] != kNoArgument) result_of_[next_[result]] = result;
      }
      for (int result : results) {
        for (const ReadByCondition& each : read) {
          if (each.place == PlaceOf(view_, result)) {
            Push(view_.fanin(result)[0], each.as, result);
          }
        }
      }
      Search();
    }
    return std::move(found_);
  }

 private:
  struct State {
    OutputPort tensor;
    Reading as;
    int comparison;
  };

  void Begin(int loop) {
    loop_ = loop;
    open_.clear();
    seen_.clear();
    on_cycle_.clear();
  }

  void Push(const OutputPort& tensor, Reading as, int comparison) {
    const OutputPort from = view_.LookThroughInserted(tensor);
    const int id = from.node;
    if (view_.op_def(id) == nullptr || fed_.count(view_.node(id).name()) != 0) return;
    const bool is_bool = view_.dtype(from) == tensorflow::DT_BOOL;
    if (as == Reading::kCondition ? !is_bool : !HasErrors(view_.dtype(from))) return;
    if (!seen_.insert(std::make_tuple(id, from.port, as)).second) return;
    open_.push_back({from, as, comparison});
  }

  void Search() {
    for (size_t i = 0; i < open_.size(); ++i) {
      const State state = open_[i];
      switch (state.as) {
        case Reading::kCondition:
          FromCondition(state);
          break;
        case Reading::kMagnitude:
          FromMagnitude(state);
          break;
        case Reading::kDifference:
          FromDifference(state);
          break;
      }
    }
  }

  void FromCondition(const State& state) {
    const int id = state.tensor.node;
    if (PassesArgument(state)) return;
    if (compares_.Has(id)) {
      for (const OutputPort& side : view_.fanin(id)) Push(side, Reading::kMagnitude, id);
    } else if (logical_.Has(id) || moves_.Has(id)) {
      PushInputs(state, state.as);
    }
  }

  void FromMagnitude(const State& state) {
    const int id = state.tensor.node;
    if (ends_path_[id] || Cycles().of_sums[id]) return;
    if (PassesArgument(state)) return;
    const auto fanin = view_.fanin(id);
    if (differences_.Has(id)) {
      if (IsNumber(fanin[0]) || IsNumber(fanin[1])) return;
      Keep(id, state.comparison);
      PushInputs(state, Reading::kDifference);
    } else if (multiplies_.Has(id) || products_.Has(id)) {
      for (size_t k = 0; k < fanin.size(); ++k) {
        if (IsSteady(id, static_cast<int>(k), true)) Push(fanin[k], state.as, state.comparison);
      }
    } else if (divides_.Has(id)) {
      Push(fanin[0], state.as, state.comparison);
    } else if (magnitudes_.Has(id) || moves_.Has(id)) {
      PushInputs(state, state.as);
    }
  }

  void FromDifference(const State& state) {
    const int id = state.tensor.node;
    if (ends_path_[id]) return;
    const int cycle = Cycles().of_values[id];
    if (cycle != kNoNode) {
      for (int node : on_cycle_[cycle]) Keep(node, state.comparison);
      on_cycle_[cycle].clear();
      return;
    }
    if (PassesArgument(state)) return;
    if (products_.Has(id)) {
      Keep(id, state.comparison);
      const auto fanin = view_.fanin(id);
      for (size_t k = 0; k < fanin.size(); ++k) {
        if (IsSteady(id, static_cast<int>(k), true)) Push(fanin[k], state.as, state.comparison);
      }
    } else if (linear_.Has(id) || moves_.Has(id)) {
      Keep(id, state.comparison);
      PushInputs(state, state.as);
    }
  }

  void PushInputs(const State& state, Reading as) {
    for (int k = 0; k < view_.num_inputs(state.tensor.node); ++k) {
      Push(view_.fanin(state.tensor.node)[k], as, state.comparison);
    }
  }

  // An argument of a body is a result of the iteration before.
  bool PassesArgument(const State& state) {
    const int id = state.tensor.node;
    if (result_of_[id] != kNoNode) {
      Push(view_.fanin(result_of_[id])[0], state.as, state.comparison);
      return true;
    }
    if (!is_condition_) return false;
    const std::vector<int> arguments = ArgumentsOf(view_);
    const auto found = std::find(arguments.begin(), arguments.end(), id);
    if (found == arguments.end()) return false;
    found_.arguments.push_back({static_cast<int>(found - arguments.begin()), state.as});
    return true;
  }

  // Whether the other factors of a product do not vary in the loop, or are the same tensor.
  bool IsSteady(int product, int factor, bool same) const {
    const auto fanin = view_.fanin(product);
    for (size_t k = 0; k < fanin.size(); ++k) {
      if (static_cast<int>(k) == factor || !HasErrors(view_.dtype(fanin[k]))) continue;
      if (same && Origin(fanin[k]) == Origin(fanin[factor])) continue;
      if (Varies(view_.LookThroughInserted(fanin[k]).node)) return false;
    }
    return true;
  }

  // The arguments of a condition do not tell which of them vary.
  bool Varies(int id) const {
    if (is_condition_) return false;
    if (varies_.empty()) varies_ = VaryingNodes(view_, fed_);
    return varies_[id];
  }

  int Origin(const OutputPort& tensor) const {
    return view_
        .LookThrough(tensor, [this](int id) { return view_.IsTransparent(id) || moves_.Has(id); })
        .node;
  }

  bool IsNumber(const OutputPort& tensor) const {
    const int id = Origin(tensor);
    if (!constants_.Has(id)) return false;
    const auto value = view_.node(id).attr().find("value");
    return value != view_.node(id).attr().end() &&
           value->second.tensor().tensor_shape().dim_size() == 0;
  }

  void Keep(int id, int comparison) { found_.nodes.push_back({id, comparison}); }

  // By node id: `of_values`, the number of its cycle of floats, kNoNode if it is on none;
  // `of_sums`, whether it is on a cycle without matrix products.
  struct OnCycles {
    std::vector<int> of_values;
    std::vector<bool> of_sums;
  };

  const OnCycles& Cycles() {
    if (!on_cycle_.empty()) return cycles_;
    cycles_.of_values = CyclesOf(true);
    const std::vector<int> of_sums = CyclesOf(false);
    cycles_.of_sums.assign(view_.size(), false);
    on_cycle_.assign(view_.size(), {});
    for (int id = 0; id < view_.size(); ++id) {
      cycles_.of_sums[id] = of_sums[id] != kNoNode;
      if (cycles_.of_values[id] != kNoNode) on_cycle_[cycles_.of_values[id]].push_back(id);
    }
    return cycles_;
  }

  // The cycles end where a value leaves the loop.
  std::vector<int> CyclesOf(bool through_products) const {
    std::vector<int> cycle = StronglyConnected(view_.size(), [&](int id, const auto& visit) {
      if (!through_products && products_.Has(id)) return;
      if (loop_ != kNoNode && exits_.Has(id) && LoopOf(id) == loop_) return;
      for (const InputPort& use : view_.fanout(id)) {
        if (view_.op_def(use.node) != nullptr && HasErrors(view_.dtype(use))) visit(use.node);
      }
      if (!next_.empty() && next_[id] != kNoArgument) visit(next_[id]);
    });
    std::vector<int> members(view_.size(), 0);
    for (int each : cycle) ++members[each];
    for (int& each : cycle) {
      if (members[each] == 1) each = kNoNode;
    }
    return cycle;
  }

  // The LoopCond of the loop that an Exit leaves.
  int LoopOf(int exit) const {
    const int leaves = view_.fanin(exit)[0].node;
    return view_.num_fanin(leaves) == 2 ? view_.fanin(leaves)[1].node : kNoNode;
  }

  const GraphView& view_;
  const std::set<std::string>& fed_;
  const std::vector<bool>& ends_path_;
  const OpSet compares_, logical_, differences_, magnitudes_, linear_, moves_, products_,
      multiplies_, divides_, constants_, exits_;
  std::vector<int> result_of_;  // by node id: for an argument of a body, the result in its place
  std::vector<int> next_;       // see NextArguments(); empty unless the graph is a body
  bool is_condition_ = false;   // whether the graph is that of a While
  int loop_ = kNoNode;          // the LoopCond whose condition is searched
  std::vector<State> open_;
  std::set<std::tuple<int, int, Reading>> seen_;
  OnCycles cycles_;
  std::vector<std::vector<int>> on_cycle_;  // the nodes by the number of their cycle
  mutable std::vector<bool> varies_;
  LoopEnds found_;
};

}  // namespace

LoopEnds FindLoopEnds(const GraphView& view, const std::set<std::string>& fed,
                      const std::vector<bool>& ends_path,
                      const std::vector<ReadByCondition>& read) {
  return Finder(view, fed, ends_path).Run(read);
}

}  // namespace npu_precision
