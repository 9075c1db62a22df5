#include "graph_passes/rewrite/hoist_loop_invariants.h"

#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph_passes/analysis/loop_invariants.h"
#include "graph_passes/analysis/loop_pivots.h"
#include "graph_passes/graph/constant_values.h"
#include "graph_passes/graph/control_inputs.h"
#include "graph_passes/graph/marks.h"
#include "graph_passes/graph/op_set.h"
#include "graph_passes/graph/op_traits.h"
#include "tensorflow/core/framework/attr_value.pb.h"

namespace npu_precision {
namespace {

using tensorflow::GraphDef;
using tensorflow::NodeDef;

constexpr int kNone = LoopPivots::kNone;
constexpr char kOption[] = "loop_constants";

// A loop variable.
struct Variable {
  int merge, enter, next;
  int loop;  // the LoopCond
};

// Ops whose output may be alive although an input is dead, or which cross iterations or frames.
bool BoundsBody(const std::string& op) {
  static const auto* names =
      new std::unordered_set<std::string>{"Merge",    "Enter",    "Exit",    "NextIteration",
                                          "RefMerge", "RefEnter", "RefExit", "RefNextIteration"};
  return names->count(op) != 0;
}

class Hoister {
 public:
  Hoister(const GraphView& view, const DecideContext& context)
      : view_(view),
        context_(context),
        pivots_(view),
        is_control_producer_(ControlProducers(view)),
        merges_(view, IsMerge),
        identities_(view, "Identity"),
        enters_(view, "Enter"),
        next_iterations_(view, "NextIteration"),
        bounds_body_(view, BoundsBody) {}

  void Run(PassState* state, bool* changed) {
    FindConstants();
    MarkBodies();
    FindSuperfluousInputs();
    *changed = !constants_.empty() || !superfluous_.empty();
    if (!*changed) return;
    GraphDef* out = state->NewGraph();
    std::vector<RewriteEntry>* rewrites = &state->rewrites;
    CopyWithoutValues(state->graph(), out);
    for (const Variable& constant : constants_) Hoist(constant, out, rewrites);
    for (const auto& node : superfluous_) {
      DropControlInputs(node.first, node.second, out, rewrites);
    }
    for (NodeDef& node : *out->mutable_node()) ColocateWithRenamed(moved_, &node);
    Remove(out);
  }

 private:
  bool IsFixed(int id) const { return context_.IsFixed(view_.node(id).name()); }

  bool DependsOnPivotsAlone(int id) const {
    bool pivots_alone = true;
    VisitControlInputs(view_, id, [&](int, int on) { pivots_alone &= pivots_.IsPivot(on); });
    return pivots_alone;
  }

  void FindConstants() {
    const LoopInvariants invariants(view_, context_.fed);
    std::unordered_set<int> loops;  // the loops whose condition depends on a variable that stays
    std::vector<Variable> found;
    for (int id = 0; id < view_.size(); ++id) {
      if (view_.op_def(id) == nullptr || !merges_.Has(id)) continue;
      Variable variable = {id, kNone, kNone, kNone};
      if (!IsOfLoop(&variable)) continue;
      if (invariants.EnterOf({id, 0}) == variable.enter && MayGo(&variable)) {
        found.push_back(variable);
      } else {
        loops.insert(pivots_.DecidedBy(id));
      }
    }
    is_constant_.assign(view_.size(), false);
    for (const Variable& variable : found) {
      if (loops.count(variable.loop) == 0) continue;
      constants_.push_back(variable);
      is_constant_[variable.merge] = true;
    }
  }

  bool IsOfLoop(Variable* variable) const {
    const auto inputs = view_.fanin(variable->merge);
    if (inputs.size() != 2) return false;
    for (const OutputPort& input : inputs) {
      if (view_.op_def(input.node) == nullptr) return false;
      if (enters_.Has(input.node)) variable->enter = input.node;
      if (next_iterations_.Has(input.node)) variable->next = input.node;
    }
    return variable->enter != kNone && variable->next != kNone;
  }

  bool MayGo(Variable* variable) const {
    for (int id : {variable->merge, variable->enter, variable->next}) {
      if (IsFixed(id) || is_control_producer_[id]) return false;
    }
    if (HasControlInputs(view_, variable->merge) || !DependsOnPivotsAlone(variable->next)) {
      return false;
    }
    if (view_.fanout(variable->enter).size() != 1 || view_.fanout(variable->next).size() != 1) {
      return false;
    }
    // The second output of a Merge is the index of the input that arrived.
    if (view_.fanout({variable->merge, 1}).size() != 0) return false;
    return IsPassedThroughSwitch(variable);
  }

  // Whether NextIteration reads the variable's own Switch, through Identity nodes only, and no node
  // on the path has a control dependency on a node that may have an effect.
  bool IsPassedThroughSwitch(Variable* variable) const {
    OutputPort from = view_.fanin(variable->next)[0];
    // The bound ends the walk on a damaged graph whose Identity nodes form a cycle.
    for (int hops = 0; hops < view_.size() && identities_.Has(from.node); ++hops) {
      if (IsFixed(from.node) || !DependsOnPivotsAlone(from.node)) return false;
      from = view_.fanin(from.node)[0];
    }
    variable->loop = pivots_.LoopOf(from.node);
    return from.port == 1 && variable->loop != kNone && !HasControlInputs(view_, from.node) &&
           view_.fanin(from.node)[0].node == variable->merge;
  }

  // Finds the nodes that do not run when their loop is over: they read, directly or through others,
  // the body's output of the Switch of a variable that stays.
  void MarkBodies() {
    body_of_.assign(view_.size(), kNone);
    std::vector<int> marked;
    const auto mark_readers = [&](absl::Span<const InputPort> uses, int loop) {
      for (const InputPort& use : uses) {
        const int id = use.node;
        const bool marked_already = body_of_[id] != kNone;
        if (marked_already || view_.op_def(id) == nullptr || bounds_body_.Has(id)) continue;
        body_of_[id] = loop;
        marked.push_back(id);
      }
    };
    for (int id = 0; id < view_.size(); ++id) {
      const int loop = pivots_.LoopOf(id);
      if (loop == kNone) continue;
      const int variable = view_.fanin(id)[0].node;
      if (merges_.Has(variable) && !is_constant_[variable])
        mark_readers(view_.fanout({id, 1}), loop);
    }
    for (size_t i = 0; i < marked.size(); ++i) {
      mark_readers(view_.fanout(marked[i]), body_of_[marked[i]]);
    }
  }

  // An Identity keeps its control inputs: TensorFlow does not fuse it, and without them it could
  // become a pivot.
  void FindSuperfluousInputs() {
    for (int id = 0; id < view_.size(); ++id) {
      if (body_of_[id] == kNone || identities_.Has(id) || IsFixed(id)) continue;
      std::vector<int> superfluous;
      VisitControlInputs(view_, id, [&](int k, int on) {
        if (pivots_.IsPivot(on) && pivots_.LoopOf(view_.fanin(on)[0].node) == body_of_[id]) {
          superfluous.push_back(k);
        }
      });
      if (!superfluous.empty()) superfluous_.emplace_back(id, std::move(superfluous));
    }
  }

  void Hoist(const Variable& constant, GraphDef* out, std::vector<RewriteEntry>* rewrites) {
    const std::string& enter = view_.node(constant.enter).name();
    (*out->mutable_node(constant.enter)->mutable_attr())["is_constant"].set_b(true);
    for (int id : {constant.merge, constant.next}) {
      removed_.insert(id);
      moved_[view_.node(id).name()] = enter;
    }
    for (const InputPort& use : view_.fanout(constant.merge)) {
      out->mutable_node(use.node)->set_input(use.index, enter);
      const int loop = pivots_.LoopOf(use.node);
      if (loop != kNone && use.index == 0 && !HasControlInputs(view_, use.node)) {
        Bypass({use.node, 1}, loop, enter, out);
      }
    }
    rewrites->push_back(
        {kOption, enter, absl::StrCat("variable ", view_.node(constant.merge).name()), "constant"});
  }

  // Makes consumers of a constant read the Enter if another input prevents them from running when
  // the loop is over. Looks through Identity.
  void Bypass(const OutputPort& start, int loop, const std::string& enter, GraphDef* out) {
    std::vector<OutputPort> tensors = {start};
    for (size_t i = 0; i < tensors.size(); ++i) {
      for (const InputPort& use : view_.fanout(tensors[i])) {
        if (view_.op_def(use.node) == nullptr) continue;
        if (body_of_[use.node] == loop) {
          out->mutable_node(use.node)->set_input(use.index, enter);
        } else if (identities_.Has(use.node) && !HasControlInputs(view_, use.node) &&
                   !IsFixed(use.node)) {
          tensors.push_back({use.node, 0});
        }
      }
    }
  }

  void DropControlInputs(int id, const std::vector<int>& dropped, GraphDef* out,
                         std::vector<RewriteEntry>* rewrites) const {
    auto* inputs = out->mutable_node(id)->mutable_input();
    std::vector<std::string> names;
    int kept = dropped.front();
    for (int k = kept; k < inputs->size(); ++k) {
      if (names.size() < dropped.size() && dropped[names.size()] == k) {
        names.push_back(inputs->Get(k));
      } else {
        inputs->SwapElements(kept++, k);
      }
    }
    inputs->DeleteSubrange(kept, inputs->size() - kept);
    rewrites->push_back({kOption, view_.node(id).name(), absl::StrJoin(names, " "), ""});
  }

  void Remove(GraphDef* out) const {
    int kept = 0;
    for (int id = 0; id < view_.size(); ++id) {
      if (removed_.count(id) != 0) continue;
      out->mutable_node()->SwapElements(kept++, id);
    }
    out->mutable_node()->DeleteSubrange(kept, out->node_size() - kept);
  }

  const GraphView& view_;
  const DecideContext& context_;
  const LoopPivots pivots_;
  const std::vector<bool> is_control_producer_;
  const OpSet merges_, identities_, enters_, next_iterations_, bounds_body_;
  std::vector<Variable> constants_;  // that every iteration passes on unchanged
  std::vector<bool> is_constant_;    // by node id: the Merge of one of them
  std::vector<int> body_of_;         // by node id: the LoopCond of the loop, or kNone
  // Nodes, each with its superfluous control inputs.
  std::vector<std::pair<int, std::vector<int>>> superfluous_;
  std::unordered_set<int> removed_;
  // By the name of the removed node: its replacement.
  std::unordered_map<std::string, std::string> moved_;
};

}  // namespace

tensorflow::Status HoistLoopInvariants(PassState* state, bool* changed) {
  *changed = false;
  if (OpSet(state->view(), "LoopCond").IsEmpty()) return tensorflow::Status();
  Hoister(state->view(), state->context).Run(state, changed);
  return tensorflow::Status();
}

}  // namespace npu_precision
