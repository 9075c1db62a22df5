#include "graph_passes/loop_constants.h"

#include <string>
#include <unordered_map>
#include <unordered_set>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "graph_passes/constant_values.h"
#include "graph_passes/loop_invariants.h"
#include "graph_passes/marks.h"
#include "graph_passes/op_set.h"
#include "graph_passes/op_traits.h"
#include "tensorflow/core/framework/attr_value.pb.h"

namespace npu_precision {
namespace {

using tensorflow::GraphDef;
using tensorflow::NodeDef;

constexpr int kNone = -1;
constexpr char kOption[] = "loop_constants";

// A loop variable.
struct Variable {
  int merge, enter, next;
};

std::string FrameOf(const NodeDef& enter) {
  const auto frame = enter.attr().find("frame_name");
  return frame == enter.attr().end() ? "" : frame->second.s();
}

class Hoister {
 public:
  Hoister(const GraphView& view, const DecideContext& context)
      : view_(view),
        context_(context),
        merges_(view, IsMerge),
        switches_(view, "Switch"),
        identities_(view, "Identity"),
        loop_conds_(view, "LoopCond"),
        enters_(view, "Enter"),
        exits_(view, "Exit"),
        next_iterations_(view, "NextIteration") {}

  void Run(const GraphDef& graph, GraphDef* out, std::vector<LedgerRewrite>* rewrites) {
    if (loop_conds_.IsEmpty()) return;
    FindAwaited();
    FindConstants();
    MarkBodies();
    FindSuperfluousWaits();
    if (constants_.empty() && waits_.empty()) return;
    CopyWithoutValues(graph, out);
    for (const Variable& constant : constants_) Hoist(constant, out, rewrites);
    for (const Wait& wait : waits_) DropWait(wait, out, rewrites);
    for (NodeDef& node : *out->mutable_node()) ColocateWithMoved(moved_, &node);
    Remove(out);
  }

 private:
  struct Wait {
    int node;
    std::string on;  // "^pivot"
  };

  bool IsUntouchable(int id) const {
    const std::string& name = view_.node(id).name();
    return context_.preserved.count(name) != 0 || context_.fed.count(name) != 0;
  }

  bool HasControlInputs(int id) const {
    return view_.node(id).input_size() != view_.fanin(id).size();
  }

  template <typename Visit>
  void VisitControlInputs(int id, const Visit& visit) const {
    const NodeDef& node = view_.node(id);
    for (int k = view_.fanin(id).size(); k < node.input_size(); ++k) {
      visit(view_.IndexOf(absl::string_view(node.input(k)).substr(1)));
    }
  }

  void FindAwaited() {
    awaited_.assign(view_.size(), false);
    for (int id = 0; id < view_.size(); ++id) {
      for (const std::string& input : view_.node(id).input()) {
        if (input[0] == '^') awaited_[view_.IndexOf(absl::string_view(input).substr(1))] = true;
      }
    }
  }

  // Of a Switch that a loop goes on or ends by, the LoopCond, else kNone.
  int LoopOf(int id) const {
    if (view_.op_def(id) == nullptr || !switches_.Has(id)) return kNone;
    const int condition = view_.fanin(id)[1].node;
    return loop_conds_.Has(condition) ? condition : kNone;
  }

  // Runs where an iteration goes on, waits for nothing else, and does nothing.
  bool IsPivot(int id) const {
    if (view_.op_def(id) == nullptr || !identities_.Has(id) || HasControlInputs(id)) return false;
    const OutputPort from = view_.fanin(id)[0];
    return from.port == 1 && LoopOf(from.node) != kNone && !HasControlInputs(from.node);
  }

  bool WaitsForPivotsAlone(int id) const {
    bool pivots_alone = true;
    VisitControlInputs(id, [&](int on) { pivots_alone &= IsPivot(on); });
    return pivots_alone;
  }

  void FindConstants() {
    const LoopInvariants invariants(view_, context_.fed);
    std::unordered_set<std::string> varying;  // frames in which some variable is no constant
    std::vector<Variable> found;
    for (int id = 0; id < view_.size(); ++id) {
      if (view_.op_def(id) == nullptr || !merges_.Has(id)) continue;
      Variable variable = {id, kNone, kNone};
      if (!IsOfLoop(&variable)) continue;
      if (invariants.EnterOf({id, 0}) == variable.enter && MayGo(variable)) {
        found.push_back(variable);
      } else {
        varying.insert(FrameOf(view_.node(variable.enter)));
      }
    }
    is_constant_.assign(view_.size(), false);
    for (const Variable& variable : found) {
      // Something must begin the next iteration.
      if (varying.count(FrameOf(view_.node(variable.enter))) == 0) continue;
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

  bool MayGo(const Variable& variable) const {
    for (int id : {variable.merge, variable.enter, variable.next}) {
      if (IsUntouchable(id) || awaited_[id]) return false;
    }
    if (HasControlInputs(variable.merge) || !WaitsForPivotsAlone(variable.next)) return false;
    if (view_.fanout(variable.enter).size() != 1 || view_.fanout(variable.next).size() != 1) {
      return false;
    }
    // Its second output says which of its inputs came.
    if (view_.fanout({variable.merge, 1}).size() != 0) return false;
    return IsHandedOnAtOnce(variable);
  }

  // Whether each iteration gets it from the one before through its Switch, and nothing on the way
  // waits for what may have an effect.
  bool IsHandedOnAtOnce(const Variable& variable) const {
    OutputPort from = view_.fanin(variable.next)[0];
    // The bound ends the walk on a damaged graph whose Identity nodes form a cycle.
    for (int hops = 0; hops < view_.size() && identities_.Has(from.node); ++hops) {
      if (IsUntouchable(from.node) || !WaitsForPivotsAlone(from.node)) return false;
      from = view_.fanin(from.node)[0];
    }
    return from.port == 1 && LoopOf(from.node) != kNone && !HasControlInputs(from.node) &&
           view_.fanin(from.node)[0].node == variable.merge;
  }

  // Notes of each node whether it is dead when a loop is over, and of which: it reads, through any
  // number of nodes, what the loop's Switch of a variable that stays yields for the body.
  void MarkBodies() {
    body_of_.assign(view_.size(), kNone);
    std::vector<int> marked;
    const auto mark_readers = [&](Span<InputPort> uses, int loop) {
      for (const InputPort& use : uses) {
        const int id = use.node;
        if (body_of_[id] != kNone || view_.op_def(id) == nullptr || merges_.Has(id) ||
            enters_.Has(id) || exits_.Has(id) || next_iterations_.Has(id)) {
          continue;
        }
        body_of_[id] = loop;
        marked.push_back(id);
      }
    };
    for (int id = 0; id < view_.size(); ++id) {
      const int loop = LoopOf(id);
      if (loop == kNone) continue;
      const int variable = view_.fanin(id)[0].node;
      if (merges_.Has(variable) && !is_constant_[variable])
        mark_readers(view_.fanout({id, 1}), loop);
    }
    for (size_t i = 0; i < marked.size(); ++i) {
      mark_readers(view_.fanout(marked[i]), body_of_[marked[i]]);
    }
  }

  void FindSuperfluousWaits() {
    for (int id = 0; id < view_.size(); ++id) {
      if (body_of_[id] == kNone || IsUntouchable(id)) continue;
      VisitControlInputs(id, [&](int on) {
        if (IsPivot(on) && LoopOf(view_.fanin(on)[0].node) == body_of_[id]) {
          waits_.push_back({id, absl::StrCat("^", view_.node(on).name())});
        }
      });
    }
  }

  void Hoist(const Variable& constant, GraphDef* out, std::vector<LedgerRewrite>* rewrites) {
    const std::string& enter = view_.node(constant.enter).name();
    (*out->mutable_node(constant.enter)->mutable_attr())["is_constant"].set_b(true);
    for (int id : {constant.merge, constant.next}) {
      removed_.insert(id);
      moved_[view_.node(id).name()] = enter;
    }
    for (const InputPort& use : view_.fanout(constant.merge)) {
      out->mutable_node(use.node)->set_input(use.index, enter);
      const int loop = LoopOf(use.node);
      if (loop != kNone && use.index == 0 && !HasControlInputs(use.node)) {
        Bypass({use.node, 1}, loop, enter, out);
      }
    }
    rewrites->push_back(
        {kOption, enter, absl::StrCat("variable ", view_.node(constant.merge).name()), "constant"});
  }

  // Lets readers of a constant, through Identity too, that another input keeps from running when
  // the loop is over read the Enter instead.
  void Bypass(const OutputPort& start, int loop, const std::string& enter, GraphDef* out) {
    std::vector<OutputPort> tensors = {start};
    for (size_t i = 0; i < tensors.size(); ++i) {
      for (const InputPort& use : view_.fanout(tensors[i])) {
        if (view_.op_def(use.node) == nullptr) continue;
        if (body_of_[use.node] == loop) {
          out->mutable_node(use.node)->set_input(use.index, enter);
        } else if (identities_.Has(use.node) && !HasControlInputs(use.node) &&
                   !IsUntouchable(use.node)) {
          tensors.push_back({use.node, 0});
        }
      }
    }
  }

  void DropWait(const Wait& wait, GraphDef* out, std::vector<LedgerRewrite>* rewrites) const {
    auto* inputs = out->mutable_node(wait.node)->mutable_input();
    for (int k = inputs->size() - 1; k >= view_.fanin(wait.node).size(); --k) {
      if (inputs->Get(k) == wait.on) inputs->DeleteSubrange(k, 1);
    }
    rewrites->push_back({kOption, view_.node(wait.node).name(), wait.on, ""});
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
  const OpSet merges_, switches_, identities_, loop_conds_, enters_, exits_, next_iterations_;
  std::vector<bool> awaited_;        // by node id, whether a control input names it
  std::vector<Variable> constants_;  // that each iteration hands on as they are
  std::vector<bool> is_constant_;    // by node id, of their Merges
  std::vector<int> body_of_;         // by node id, the LoopCond of the loop, or kNone
  std::vector<Wait> waits_;
  std::unordered_set<int> removed_;
  std::unordered_map<std::string, std::string> moved_;  // what is placed with a removed node
};

}  // namespace

void HoistLoopConstants(const GraphView& view, const GraphDef& graph, const DecideContext& context,
                        GraphDef* out, std::vector<LedgerRewrite>* rewrites) {
  Hoister(view, context).Run(graph, out, rewrites);
}

}  // namespace npu_precision
