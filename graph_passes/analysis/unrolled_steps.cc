#include "graph_passes/analysis/unrolled_steps.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <numeric>
#include <string>
#include <unordered_map>

#include "graph_passes/analysis/cycles.h"
#include "graph_passes/analysis/few_values.h"
#include "graph_passes/graph/op_set.h"
#include "graph_passes/graph/op_traits.h"

namespace npu_precision {
namespace {

constexpr int kManySteps = 16;
// How many ops back nodes are compared, without those that only move values. A residual sum has its
// weights fewer ops back, and every step of an unrolled loop is one op or more.
constexpr int kDepth = 16;

constexpr int kUnknown = -1;

uint64_t Joined(uint64_t hash, uint64_t more) {
  return hash ^ (more + 0x9e3779b97f4a7c15 + (hash << 6) + (hash >> 2));
}

uint64_t HashOf(const std::string& text) { return std::hash<std::string>()(text); }

// What each node computes, as a hash; see UnrolledSteps().
class Likeness {
 public:
  Likeness(const GraphView& view, const ConstantValues& values)
      : view_(view),
        values_(values),
        moves_values_(view, MovesValues),
        products_(view, IsMatrixOrConvolution),
        reads_(view, ReadsVariable),
        constants_(view, "Const"),
        sources_(view, IsNeutralSource),
        origin_(view.size(), kUnknown) {}

  std::vector<uint64_t> Run() const {
    std::vector<uint64_t> hash(view_.size());
    std::vector<std::vector<int>> inputs(view_.size());
    for (int id = 0; id < view_.size(); ++id) {
      hash[id] = sources_.Has(id) ? Source(id) : HashOf(view_.node(id).op());
      if (sources_.Has(id) || view_.op_def(id) == nullptr) continue;
      for (int k = 0; k < view_.num_inputs(id); ++k) {
        if (view_.GroupOf(InputPort{id, k}) == kNoGroup) continue;
        const int from = Moved(view_.fanin(id)[k]);
        if (!products_.Has(id)) {
          inputs[id].push_back(from);
        } else if (sources_.Has(from)) {
          hash[id] = Joined(hash[id], Source(from));
        }
      }
    }
    for (int depth = 0; depth < kDepth; ++depth) {
      const std::vector<uint64_t> before = hash;
      for (int id = 0; id < view_.size(); ++id) {
        for (int from : inputs[id]) hash[id] = Joined(hash[id], before[from]);
      }
    }
    return hash;
  }

 private:
  // The node whose values the tensor has. The nodes that move them are followed once each, because
  // there may be a million in a row.
  int Moved(const OutputPort& tensor) const {
    std::vector<int> chain;
    int id = tensor.node;
    while (origin_[id] == kUnknown && Moves(id)) {
      origin_[id] = id;  // ends the walk in a loop
      chain.push_back(id);
      id = view_.fanin(id)[0].node;
    }
    const int origin = origin_[id] == kUnknown ? id : origin_[id];
    for (int moving : chain) origin_[moving] = origin;
    return origin;
  }

  bool Moves(int id) const {
    return (moves_values_.Has(id) || view_.IsTransparent(id)) && view_.num_fanin(id) > 0;
  }

  // Each step reads a variable anew.
  uint64_t Source(int id) const {
    if (constants_.Has(id) && IsNumber(view_.node(id), values_)) return HashOf("a number");
    const bool has_handle = reads_.Has(id) && view_.num_fanin(id) > 0;
    return HashOf(view_.node(has_handle ? Moved(view_.fanin(id)[0]) : id).name());
  }

  const GraphView& view_;
  const ConstantValues& values_;
  const OpSet moves_values_, products_, reads_, constants_, sources_;
  mutable std::vector<int> origin_;  // by node id: the results of Moved
};

class Finder {
 public:
  Finder(const GraphView& view, Gains* gains)
      : view_(view), from_(view.size()), adds_(view.size()) {
    const std::vector<int> component =
        StronglyConnected(view.size(), [&](int id, const auto& visit) {
          for (const InputPort& use : view.fanout(id)) {
            if (gains->PathInto(use) != Path::kEnds) visit(use.node);
          }
        });
    for (int id = 0; id < view.size(); ++id) {
      for (const InputPort& use : view.fanout(id)) {
        if (component[id] == component[use.node]) continue;  // in a loop that TensorFlow runs
        const Path path = gains->PathInto(use);
        if (path == Path::kEnds) continue;
        from_[use.node].push_back(id);
        if (path == Path::kAdds) adds_[use.node] = true;
      }
    }
    // The components are numbered from the last to the first.
    order_.resize(view.size());
    std::iota(order_.begin(), order_.end(), 0);
    std::stable_sort(order_.begin(), order_.end(),
                     [&](int a, int b) { return component[a] > component[b]; });
  }

  std::vector<int> Run(const ConstantValues& values) const {
    const std::vector<int> on_long_paths = OnPaths(adds_);
    if (on_long_paths.empty()) return {};
    const std::vector<uint64_t> hash = Likeness(view_, values).Run();
    std::unordered_map<uint64_t, std::vector<int>> alike;
    for (int id : on_long_paths) {
      if (adds_[id]) alike[hash[id]].push_back(id);
    }
    std::vector<bool> found(view_.size(), false);
    for (const auto& nodes : alike) {
      if (nodes.second.size() < kManySteps) continue;
      std::vector<bool> counts(view_.size(), false);
      for (int id : nodes.second) counts[id] = true;
      for (int id : OnPaths(counts)) found[id] = true;
    }
    std::vector<int> ids;
    for (int id = 0; id < view_.size(); ++id) {
      if (found[id]) ids.push_back(id);
    }
    return ids;
  }

 private:
  // The nodes on a path with many nodes that count, from the first of these to the last.
  std::vector<int> OnPaths(const std::vector<bool>& counts) const {
    std::vector<int> until(view_.size(), 0), after(view_.size(), 0), found;
    for (int id : order_) {
      for (int from : from_[id]) until[id] = std::max(until[id], until[from]);
      until[id] += counts[id];
    }
    for (auto id = order_.rbegin(); id != order_.rend(); ++id) {
      for (int from : from_[*id]) after[from] = std::max(after[from], after[*id] + counts[*id]);
    }
    for (int id = 0; id < view_.size(); ++id) {
      const bool is_between = until[id] > 0 && (counts[id] || after[id] > 0);
      if (is_between && until[id] + after[id] >= kManySteps) found.push_back(id);
    }
    return found;
  }

  const GraphView& view_;
  std::vector<std::vector<int>> from_;  // by node id, where paths come from
  std::vector<bool> adds_;              // by node id
  std::vector<int> order_;              // producers before consumers
};

}  // namespace

std::vector<int> UnrolledSteps(const GraphView& view, const ConstantValues& values, Gains* gains) {
  gains->set_grows(std::vector<bool>(view.size(), false));
  return Finder(view, gains).Run(values);
}

}  // namespace npu_precision
