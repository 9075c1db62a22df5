#include "graph_passes/fuse/fused_updates.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph_passes/fuse/fusion_site.h"
#include "graph_passes/fuse/stock_updates.h"
#include "graph_passes/fuse/update_expression.h"
#include "graph_passes/fuse/update_group.h"
#include "graph_passes/fuse/written_updates.h"
#include "graph_passes/graph/control_inputs.h"
#include "graph_passes/graph/drop_unused.h"
#include "graph_passes/graph/op_set.h"
#include "graph_passes/graph/private_ops.h"
#include "graph_passes/rewrite/unique_names.h"
#include "tensorflow/core/framework/attr_value.pb.h"
#include "tensorflow/core/lib/hash/hash.h"

namespace npu_precision {
namespace {

using tensorflow::GraphDef;
using tensorflow::NodeDef;
using tensorflow::Status;

constexpr char kPass[] = "fused_updates";

bool IsStock(const std::string& op) { return StockUpdateOf(op) != nullptr; }

class Writer {
 public:
  explicit Writer(PassState* state)
      : state_(state),
        view_(state->view()),
        site_(*state),
        expressions_(*state, site_),
        names_(view_) {}

  void Run() {
    for (int id : OpSet(view_, IsStock).Ids()) WriteStock(id);
    updates_ = FindWrittenUpdates(view_, site_, expressions_);
    for (const std::vector<int>& group : GroupsOf(updates_)) {
      if (!updates_[group[0]].is_whole) continue;
      if (WriteGroup(group) || group.size() == 1) continue;
      for (int number : group) WriteGroup({number});
    }
    if (!added_.empty()) Apply(state_->Editable());
  }

 private:
  const std::string& Name(int id) const { return view_.node(id).name(); }

  bool HasOurOps(int id) const {
    return site_.MayChange(id) && state_->context.support->HasOwnOps(view_.node(id));
  }

  // Adds the update op; each member becomes a NoOp that waits for it, because others may wait for
  // the member. A session keeps the kernel of an op with state by the name of its node, and the
  // graph of another run may compute another update: so the name says what is computed.
  void Replace(const char* op, const UpdateBuilder& builder, const std::vector<int>& members,
               const std::set<std::string>& controls, const std::set<int>& gone) {
    const int last = members.back();
    NodeDef update;
    update.set_device(view_.node(last).device());
    builder.Write(op, controls, &update);
    const auto hash = absl::Hex(tensorflow::Hash64(absl::StrCat(op, builder.Text())));
    update.set_name(names_.Take(absl::StrCat(Name(last), "/npu_update_", hash)));
    for (int id : members) {
      update_of_[id] = update.name();
      state_->rewrites.push_back({kPass, Name(id), view_.node(id).op(), op});
    }
    added_.push_back(std::move(update));
    gone_.insert(gone.begin(), gone.end());
  }

  // A training op whose gradient was cast to float32.
  void WriteStock(int id) {
    const NodeDef& node = view_.node(id);
    const StockUpdate& stock = *StockUpdateOf(node.op());
    const auto type = node.attr().find("T");
    if (type == node.attr().end() || type->second.type() != tensorflow::DT_FLOAT) return;
    if (!HasOurOps(id) || !view_.fanout(id).empty()) return;
    if (stock.is_reference && state_->preserved.count(node.name()) != 0) return;
    const auto fanin = view_.fanin(id);
    const std::vector<OutputPort> inputs(fanin.begin(), fanin.end());
    const OutputPort gradient = inputs[stock.gradient];
    const std::set<int> taken = expressions_.Taken({id}, {gradient});
    UpdateBuilder builder(view_);
    std::map<int, int> steps;
    const int step = expressions_.Write(gradient, taken, [](int) { return -1; }, &steps, &builder);
    const auto& tensors = builder.tensors();
    const bool reads_low = std::any_of(tensors.begin(), tensors.end(), [this](OutputPort each) {
      return view_.dtype(each) != tensorflow::DT_FLOAT;
    });
    if (!reads_low) return;
    stock.write(node, inputs, step, &builder);
    Replace(stock.is_reference ? kUpdateRefOp : kUpdateOp, builder, {id},
            ControlsOf(view_, {id}, taken), taken);
  }

  // Returns false if the graph does not allow it.
  bool WriteGroup(const std::vector<int>& group) {
    std::vector<int> members;
    for (int number : group) members.push_back(updates_[number].node);
    const std::string& device = view_.node(members[0]).device();
    const bool runs_ours = std::all_of(members.begin(), members.end(), [&](int id) {
      return HasOurOps(id) && view_.node(id).device() == device;
    });
    UpdateGroup fused(view_, expressions_, updates_, group);
    if (!runs_ours || !fused.Fuse(made_one_)) return false;
    for (int id : members) made_one_[id] = members;
    unread_.insert(fused.unread().begin(), fused.unread().end());
    Replace(kUpdateOp, fused.builder(), members, fused.controls(), fused.gone());
    return true;
  }

  static void WriteNoOp(const std::set<std::string>& controls, NodeDef* node) {
    node->set_op("NoOp");
    node->clear_input();
    node->clear_attr();
    for (const std::string& control : controls) node->add_input(control);
  }

  // All at once, because view_ sees what changes in the graph.
  void Apply(GraphDef* graph) const {
    for (const auto& each : update_of_) {
      WriteNoOp({absl::StrCat("^", each.second)}, graph->mutable_node(each.first));
    }
    for (int id : unread_) {
      std::set<std::string> controls;
      AddControlInputs(view_.node(id), &controls);
      WriteNoOp(controls, graph->mutable_node(id));
    }
    GraphDef kept;
    for (int id = 0; id < graph->node_size(); ++id) {
      if (gone_.count(id) == 0) kept.add_node()->Swap(graph->mutable_node(id));
    }
    for (const NodeDef& node : added_) *kept.add_node() = node;
    graph->mutable_node()->Swap(kept.mutable_node());
    DropUnused(state_->preserved, graph);
  }

  PassState* const state_;
  const GraphView& view_;
  const FusionSite site_;
  const UpdateExpressions expressions_;
  UniqueNames names_;
  std::vector<WrittenUpdate> updates_;
  std::map<int, std::string> update_of_;  // by the node that it replaces
  UpdateExpressions::MadeOne made_one_;
  std::vector<NodeDef> added_;
  std::set<int> gone_, unread_;
};

}  // namespace

Status FuseUpdates(PassState* state, bool* changed) {
  const size_t rewrites = state->rewrites.size();
  const GraphView& view = state->view();
  if (!OpSet(view, IsStock).IsEmpty() || !OpSet(view, Assigns).IsEmpty()) Writer(state).Run();
  *changed = state->rewrites.size() != rewrites;
  return Status();
}

}  // namespace npu_precision
