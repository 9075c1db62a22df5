#include "graph_passes/decide/cheapest_dtypes.h"

#include <algorithm>
#include <set>
#include <string>

#include "graph_passes/analysis/fused_later.h"
#include "graph_passes/analysis/loop_nodes.h"
#include "graph_passes/analysis/product_flops.h"
#include "graph_passes/analysis/tensor_sizes.h"
#include "graph_passes/decide/kernel_costs.h"
#include "graph_passes/graph/min_cut.h"
#include "graph_passes/graph/op_traits.h"

namespace npu_precision {
namespace {

// A Cast takes at least as long as one of so many elements: the time that a node needs to start.
constexpr double kElementsToStart = 65536;
// A Cast takes longer than where it was measured: its result is memory that was not used just now,
// while other nodes may write over their input.
constexpr double kMemory = 1.5;
// What is in a loop is taken to run so many times.
constexpr double kIterations = 16;

// The source's side keeps float32, the sink's side is lowered. So of divisions that cost the same,
// the one is found that keeps the fewest nodes.
constexpr int kFloat32 = MinCut::kSource, kLow = MinCut::kSink;

class Divider {
 public:
  Divider(const GraphView& view, const DecideContext& context, const NodeClasses& classes,
          const std::vector<int>& leader, const std::vector<GroupState>& groups)
      : view_(view),
        context_(context),
        classes_(classes),
        leader_(leader),
        groups_(groups),
        sizes_(view, context.shapes, classes.handles),
        in_loop_(LoopNodes(view)) {}

  std::vector<KeptGroup> Run() {
    FindFree();
    std::vector<KeptGroup> kept;
    if (!HasCosts()) return kept;
    for (int id = 0; id < view_.size(); ++id) {
      for (int port = 0; port < view_.num_outputs(id); ++port) AddTensor({id, port});
    }
    const std::vector<bool> keeps = cut_.SideOfSource();
    for (int group = 0; group < view_.num_groups(); ++group) {
      if (!is_free_[leader_[group]] || !keeps[NodeOf(group)]) continue;
      const bool is_slow = ExtraCasts(view_.node(view_.node_of_group(group))) > 0;
      kept.push_back({group, is_slow ? Reason::kSlowKernel : Reason::kCastsCostMore});
    }
    return kept;
  }

 private:
  bool IsLowered(int group) const {
    return classes_.can_change[group] && groups_[group].vote == Vote::kLowered;
  }

  // oneDNN's kernels, such as those of pools, are fast in the low type, and a gradient's may need
  // that the forward node has the same dtype.
  bool MayKeep(int group, const std::vector<bool>& fused) const {
    const int id = view_.node_of_group(group);
    const NodeClass& node = classes_.nodes[id];
    const std::string& op = view_.node(id).op();
    if (ExtraCasts(view_.node(id)) == 0 && !IsElementwise(op) && !MovesValues(op) &&
        !IsControlFlow(op) && !HasElementDtype(op) && op != "Split" && op != "SplitV") {
      return false;
    }
    return node.listing.color == ListColor::kGray && node.listing.edited == Edited::kNo &&
           node.custom == nullptr && !fused[id] &&
           context_.support->HasOneDnn(view_.node(id), tensorflow::DT_BFLOAT16);
  }

  // By leader: whether all groups of the class are lowered, and may keep float32.
  void FindFree() {
    std::set<std::string> fixed = context_.preserved;
    fixed.insert(context_.fed.begin(), context_.fed.end());
    const std::vector<bool> fused = FusedLater(view_, fixed);
    is_free_.assign(view_.num_groups(), true);
    node_of_class_.assign(view_.num_groups(), -1);
    for (int group = 0; group < view_.num_groups(); ++group) {
      if (!IsLowered(group) || !MayKeep(group, fused)) is_free_[leader_[group]] = false;
    }
  }

  // Adds what the kernels of free nodes cost. Returns whether any does.
  bool HasCosts() {
    bool has_costs = false;
    for (int group = 0; group < view_.num_groups(); ++group) {
      if (!is_free_[leader_[group]]) continue;
      const int id = view_.node_of_group(group);
      const double extra = ExtraCasts(view_.node(id));
      if (extra == 0 || view_.num_outputs(id) == 0) continue;
      const double elements = sizes_.Elements({id, 0});
      if (elements == kUnknownCost) continue;
      has_costs |= extra > 0;
      const double cost = extra * elements * RunsOf(id);
      if (cost > 0) {
        cut_.AddEdge(kFloat32, NodeOf(group), cost);
      } else {
        cut_.AddEdge(NodeOf(group), kLow, -cost);
      }
    }
    return has_costs;
  }

  // The number of a group's class in the network.
  int NodeOf(int group) {
    if (group == kNoGroup) return kFloat32;
    const int leader = leader_[group];
    if (!is_free_[leader]) {
      const bool is_low =
          IsLowered(group) || view_.group_numbered(group).dtype == context_.NewDtype();
      return is_low ? kLow : kFloat32;
    }
    if (node_of_class_[leader] < 0) node_of_class_[leader] = cut_.AddNode();
    return node_of_class_[leader];
  }

  // Adds the Casts of a tensor, one for all its readers of the other dtype.
  void AddTensor(const OutputPort& tensor) {
    const int producer = NodeOf(view_.GroupOf(tensor));
    std::set<int> readers;
    view_.VisitThroughInserted(view_.fanout(tensor), [&](const InputPort& use) {
      const int group = view_.GroupOf(use);
      if (group != kNoGroup || view_.dtype(use) == tensorflow::DT_FLOAT) {
        readers.insert(NodeOf(group));
      }
    });
    if (context_.preserved.count(view_.node(tensor.node).name()) != 0) readers.insert(kFloat32);
    readers.erase(producer);
    const bool is_decided = producer <= kLow && std::all_of(readers.begin(), readers.end(),
                                                            [](int node) { return node <= kLow; });
    if (is_decided || IsConstant(tensor.node)) return;
    const double elements = sizes_.Elements(tensor);
    if (elements == kUnknownCost) {
      for (int reader : readers) Tie(producer, reader);
      return;
    }
    const double cost = (kMemory * elements + kElementsToStart) * RunsOf(tensor.node);
    const int from_float32 = cut_.AddNode(), from_low = cut_.AddNode();
    cut_.AddEdge(producer, from_float32, cost);
    cut_.AddEdge(from_low, producer, cost);
    for (int reader : readers) {
      cut_.AddEdge(from_float32, reader, MinCut::kNever);
      cut_.AddEdge(reader, from_low, MinCut::kNever);
    }
  }

  // Nodes whose dtype is decided already need no edge between them.
  void Tie(int a, int b) {
    if (a <= kLow && b <= kLow) return;
    // A Cast of unknown size that is there anyway does not tie.
    if (a == kFloat32 || b == kFloat32) return;
    cut_.AddEdge(a, b, MinCut::kNever);
    cut_.AddEdge(b, a, MinCut::kNever);
  }

  double RunsOf(int id) const { return in_loop_[id] ? kIterations : 1; }

  // TensorFlow casts a constant once.
  bool IsConstant(int id) const { return view_.node(id).op() == "Const"; }

  const GraphView& view_;
  const DecideContext& context_;
  const NodeClasses& classes_;
  const std::vector<int>& leader_;
  const std::vector<GroupState>& groups_;
  TensorSizes sizes_;
  const std::vector<bool> in_loop_;  // by node id
  MinCut cut_;
  std::vector<bool> is_free_;       // by leader
  std::vector<int> node_of_class_;  // by leader: its number in the network, or -1
};

}  // namespace

std::vector<KeptGroup> CheapestDtypes(const GraphView& view, const DecideContext& context,
                                      const NodeClasses& classes, const std::vector<int>& leader,
                                      const std::vector<GroupState>& groups) {
  if (!context.shapes || context.NewDtype() != tensorflow::DT_BFLOAT16) return {};
  return Divider(view, context, classes, leader, groups).Run();
}

}  // namespace npu_precision
