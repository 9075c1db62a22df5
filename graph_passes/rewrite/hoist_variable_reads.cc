#include "graph_passes/rewrite/hoist_variable_reads.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "graph_passes/analysis/loop_nodes.h"
#include "graph_passes/analysis/loop_pivots.h"
#include "graph_passes/analysis/reference_reads.h"
#include "graph_passes/graph/control_inputs.h"
#include "graph_passes/graph/op_set.h"
#include "graph_passes/graph/op_traits.h"
#include "tensorflow/core/framework/attr_value.pb.h"
#include "tensorflow/core/framework/op_def.pb.h"

namespace npu_precision {
namespace {

using tensorflow::GraphDef;
using tensorflow::NodeDef;

constexpr char kPass[] = "hoist_variable_reads";
constexpr char kRead[] = "ReadVariableOp";
constexpr char kSuffix[] = "/npu_before_loop";
// A bound on the Identity nodes behind a read.
constexpr int kMostHops = 4;

bool BoundsBody(const std::string& op) {
  return IsEnter(op) || IsExit(op) || IsMerge(op) || FeedsLoopMerge(op);
}

// Python may assign any variable that lives in eager mode.
bool RunsPython(const std::string& op) { return op == "PyFunc" || op == "EagerPyFunc"; }

// As OnlyReadsHandle(); or the op is on a handle of another kind than a variable's.
bool LeavesVariables(const std::string& op) {
  return OnlyReadsHandle(op) || absl::StartsWith(op, "TensorArray") ||
         absl::StartsWith(op, "Stack");
}

class Hoister {
 public:
  explicit Hoister(PassState* state)
      : state_(state),
        view_(state->view()),
        pivots_(view_),
        is_control_producer_(ControlProducers(view_)),
        identities_(view_, "Identity"),
        enters_(view_, IsEnter),
        merges_(view_, IsMerge),
        bounds_body_(view_, BoundsBody),
        in_loop_(LoopNodes(view_)) {}

  void Run() {
    for (int id = 0; id < view_.size(); ++id) {
      if (in_loop_[id] && MayWrite(id)) return;
    }
    FindGuarded();
    std::vector<int> reads;
    for (int id : OpSet(view_, kRead).Ids()) {
      if (MayHoist(id)) reads.push_back(id);
    }
    if (reads.empty()) return;
    for (int id : reads) Hoist(id, state_->Copied());
    AddControlInputsOfReads(state_->Copied());
  }

 private:
  // Whether the node may change a variable: it has a handle or a reference, or calls a function or
  // Python.
  bool MayWrite(int id) const {
    const tensorflow::OpDef* op = view_.op_def(id);
    if (op == nullptr) return true;
    if (!op->is_stateful() || LeavesVariables(op->name())) return false;
    if (RunsPython(op->name())) return true;
    for (const auto& attr : view_.node(id).attr()) {
      if (attr.second.has_func() || attr.second.list().func_size() > 0) return true;
    }
    const auto inputs = view_.fanin(id);
    return std::any_of(inputs.begin(), inputs.end(), [this](const OutputPort& input) {
      return view_.dtype(input) == tensorflow::DT_RESOURCE || YieldsReference(view_, input.node);
    });
  }

  // Marks the nodes that read what is dead when their loop is over: the body's output of a Switch
  // of a loop variable, directly or through others.
  void FindGuarded() {
    guarded_.assign(view_.size(), false);
    std::vector<int> open;
    const auto mark = [&](const InputPort& use) {
      if (guarded_[use.node] || view_.op_def(use.node) == nullptr || bounds_body_.Has(use.node)) {
        return;
      }
      guarded_[use.node] = true;
      open.push_back(use.node);
    };
    for (int id = 0; id < view_.size(); ++id) {
      if (pivots_.LoopOf(id) == LoopPivots::kNone || !merges_.Has(view_.fanin(id)[0].node))
        continue;
      for (const InputPort& use : view_.fanout({id, 1})) mark(use);
    }
    for (size_t i = 0; i < open.size(); ++i) {
      for (const InputPort& use : view_.fanout(open[i])) mark(use);
    }
  }

  bool MayHoist(int id) const {
    const NodeDef& node = view_.node(id);
    if (view_.op_def(id) == nullptr || state_->context.IsFixed(node.name()) ||
        view_.IndexOf(absl::StrCat(node.name(), kSuffix)) >= 0) {
      return false;
    }
    const int enter = view_.fanin(id)[0].node;
    if (!enters_.Has(enter) || in_loop_[view_.fanin(enter)[0].node] ||
        state_->context.IsFixed(view_.node(enter).name())) {
      return false;
    }
    const auto constant = view_.node(enter).attr().find("is_constant");
    if (constant == view_.node(enter).attr().end() || !constant->second.b()) return false;
    return AreDeadAfterwards(id);
  }

  // Whether what reads the node is dead when the loop is over. An Identity may be alive.
  bool AreDeadAfterwards(int id, int hops = 0) const {
    const auto uses = view_.fanout(id);
    return std::all_of(uses.begin(), uses.end(), [&](const InputPort& use) {
      return guarded_[use.node] ||
             (hops < kMostHops && identities_.Has(use.node) && !is_control_producer_[use.node] &&
              AreDeadAfterwards(use.node, hops + 1));
    });
  }

  static std::string Frame(const NodeDef& enter) {
    const auto found = enter.attr().find("frame_name");
    return found == enter.attr().end() ? "" : found->second.s();
  }

  // What the first iteration waits for.
  std::set<std::string> BeginOfFrame(const std::string& frame) const {
    std::set<std::string> inputs;
    for (int id : enters_.Ids()) {
      if (Frame(view_.node(id)) != frame) continue;
      AddControlInputs(view_.node(id), &inputs);
      inputs.insert(absl::StrCat("^", view_.node(view_.fanin(id)[0].node).name()));
    }
    return inputs;
  }

  void Hoist(int id, GraphDef* out) {
    const NodeDef& enter = view_.node(view_.fanin(id)[0].node);
    AddControlInputs(view_.node(id), &waits_for_[view_.node(id).name()]);
    NodeDef* before = out->add_node();
    before->set_name(absl::StrCat(view_.node(id).name(), kSuffix));
    before->set_op(kRead);
    before->set_device(view_.node(id).device());
    before->add_input(enter.input(0));
    *before->mutable_attr() = view_.node(id).attr();
    for (const std::string& input : BeginOfFrame(Frame(enter))) before->add_input(input);
    NodeDef* inside = out->mutable_node(id);
    const auto dtype = before->attr().at("dtype");
    inside->set_op("Enter");
    inside->clear_input();
    inside->add_input(before->name());
    *inside->mutable_attr() = enter.attr();
    (*inside->mutable_attr())["T"] = dtype;
    state_->rewrites.push_back({kPass, inside->name(), kRead, "Enter"});
  }

  // What waits for a read in the loop also waits for what that waited for, which is dead when the
  // loop is over.
  void AddControlInputsOfReads(GraphDef* out) const {
    for (NodeDef& node : *out->mutable_node()) {
      std::set<std::string> added;
      for (const std::string& input : node.input()) {
        const auto found = input[0] == '^' ? waits_for_.find(input.substr(1)) : waits_for_.end();
        if (found != waits_for_.end()) added.insert(found->second.begin(), found->second.end());
      }
      for (const std::string& input : node.input()) added.erase(input);
      for (const std::string& input : added) node.add_input(input);
    }
  }

  PassState* const state_;
  const GraphView& view_;
  const LoopPivots pivots_;
  const std::vector<bool> is_control_producer_;
  const OpSet identities_, enters_, merges_, bounds_body_;
  const std::vector<bool> in_loop_;                         // by node id
  std::vector<bool> guarded_;                               // by node id
  std::map<std::string, std::set<std::string>> waits_for_;  // by read: its control inputs
};

}  // namespace

tensorflow::Status HoistVariableReads(PassState* state, bool* changed) {
  const size_t rewrites = state->rewrites.size();
  const GraphView& view = state->view();
  if (!OpSet(view, "LoopCond").IsEmpty() && !OpSet(view, kRead).IsEmpty()) Hoister(state).Run();
  *changed = state->rewrites.size() != rewrites;
  return tensorflow::Status();
}

}  // namespace npu_precision
