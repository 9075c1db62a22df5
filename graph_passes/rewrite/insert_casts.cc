#include "graph_passes/rewrite/insert_casts.h"

#include <map>
#include <set>
#include <string>
#include <utility>

#include "graph_passes/decide/reasons.h"
#include "graph_passes/graph/constant_values.h"
#include "graph_passes/graph/drop_unused.h"
#include "graph_passes/graph/dtype_names.h"
#include "graph_passes/graph/low_types.h"
#include "graph_passes/graph/marks.h"
#include "graph_passes/rewrite/changed_graph.h"
#include "graph_passes/rewrite/rename_stateful.h"
#include "graph_passes/rewrite/shared_casts.h"
#include "tensorflow/core/framework/attr_value.pb.h"

namespace npu_precision {
namespace {

using tensorflow::DataType;
using tensorflow::GraphDef;
using tensorflow::NodeDef;

// The nodes that yield other values than they read: fed nodes, and nodes with rounded inputs or
// outputs.
std::set<std::string> Varying(const GraphView& view, const Decisions& decisions,
                              const DecideContext& context) {
  std::set<std::string> names = context.fed;
  for (const RoundedInput& each : decisions.rounded_inputs) {
    names.insert(view.node(each.input.node).name());
  }
  for (const RoundedOutput& each : decisions.rounded_outputs) {
    names.insert(view.node(each.tensor.node).name());
  }
  return names;
}

class CastInserter {
 public:
  CastInserter(const GraphView& view, const Decisions& decisions, const DecideContext& context,
               GraphDef* out)
      : view_(view),
        decisions_(decisions),
        context_(context),
        out_(*out),
        graph_(view, decisions, out),
        varying_(Varying(view, decisions, context)),
        casts_(context, varying_, &graph_) {}

  void Run() {
    new_names_ = RenameStateful(context_.preserved, &graph_);
    bool inserted_before = false;
    for (int id = 0; id < view_.size(); ++id) {
      inserted_before |= view_.IsInserted(id);
      if (graph_.Changes(id)) ChangeDtypes(id);
    }
    for (const RoundedInput& each : decisions_.rounded_inputs) {
      rounded_inputs_[{each.input.node, each.input.index}] = each.dtype;
      Mark(each.input.node);
    }
    for (const RoundedOutput& each : decisions_.rounded_outputs) RoundOutput(each);
    for (int id = 0; id < view_.size(); ++id) {
      if (view_.op_def(id) == nullptr) continue;
      for (int k = 0; k < view_.num_inputs(id); ++k) ConnectInput({id, k});
    }
    ReferToNewNames(new_names_, &out_);
    if (inserted_before) DropUnused(context_.preserved, &out_);
  }

 private:
  void ChangeDtypes(int id) {
    NodeDef* node = graph_.mutable_node(id);
    int group = view_.first_group(id);
    for (const TypeGroup& type : view_.groups(id)) {
      const DataType dtype = decisions_.group_dtypes[group++];
      if (dtype != type.dtype) SetGroupDtype(*view_.op_def(id), type, dtype, node);
    }
    ForgetFullType(node);
    Mark(id);
    if (context_.preserved.count(node->name()) != 0) GiveNameToCast(id);
  }

  // A preserved node still yields its dtype under its name. A node with several outputs does not
  // change.
  // Before: end(float32). After: end/npu_changed(float16) -> Cast, which is called end.
  void GiveNameToCast(int id) {
    if (view_.num_outputs(id) != 1) return;
    const OutputPort output = {id, 0};
    const DataType old_dtype = view_.dtype(output);
    const DataType new_dtype = graph_.NewDtype(output);
    if (new_dtype == old_dtype) return;
    const std::string name = graph_.node(id).name();
    graph_.AddCast(name, graph_.Rename(id), new_dtype, old_dtype, graph_.node(id).device());
    casts_.Add(output, old_dtype, name);
  }

  // Readers of the output as float32 read it rounded. A preserved node yields the rounded value
  // under its name, unless it has several outputs.
  // Before: end(float32). After: end/npu_changed -> Cast(float16) -> Cast, which is called end.
  void RoundOutput(const RoundedOutput& each) {
    const int id = each.tensor.node;
    rounded_outputs_[{id, each.tensor.port}] = each.dtype;
    casts_.RoundOutput(each.tensor, each.dtype);
    Mark(id);
    const bool takes_name = context_.preserved.count(graph_.node(id).name()) != 0 &&
                            view_.num_outputs(id) == 1 && !view_.op_def(id)->is_stateful();
    if (!takes_name) return;
    const std::string name = graph_.node(id).name(), device = graph_.node(id).device();
    const std::string low = graph_.CastName(each.tensor, each.dtype);
    graph_.AddCast(low, graph_.Rename(id), tensorflow::DT_FLOAT, each.dtype, device);
    graph_.AddCast(name, low, each.dtype, tensorflow::DT_FLOAT, device);
    casts_.Add(each.tensor, each.dtype, low);
    casts_.AddRounded(low, name);
  }

  void Mark(int id) {
    const Decision& decision = decisions_.nodes[id];
    DecisionMark mark;
    mark.decision = VerdictName(decision.verdict);
    mark.list = ListColorName(decision.listing.color);
    mark.reason = ReasonName(decision.reason);
    if (decision.cause >= 0) {
      mark.cause = view_.node(decision.cause).name();
      const auto renamed = new_names_.find(mark.cause);
      if (renamed != new_names_.end()) mark.cause = renamed->second;
    }
    int group = view_.first_group(id);
    for (const TypeGroup& type : view_.groups(id)) {
      if (decisions_.group_dtypes[group++] == type.dtype) continue;
      mark.before[GroupName(*view_.op_def(id), type)] = DtypeName(type.dtype);
    }
    MarkDecision(mark, graph_.mutable_node(id));
  }

  void ConnectInput(const InputPort& input) {
    const OutputPort from = view_.fanin(input.node)[input.index];
    // TensorFlow reports an edge that was wrong before.
    if (view_.dtype(from) != view_.dtype(input)) return;
    if (view_.IsTransparentCast(input.node)) return ConnectEarlierCast(input.node, from);
    const DataType wanted = graph_.NewDtype(input);
    if (ConnectRounded(input, from, wanted)) return;
    const bool stays = wanted == graph_.NewDtype(from) && !view_.IsTransparent(from.node) &&
                       !graph_.IsRenamed(from.node);
    if (!stays) Connect(input, casts_.Cast(from, wanted, input.node));
  }

  // A Cast of an earlier run converts from its producer's new dtype.
  void ConnectEarlierCast(int cast, const OutputPort& from) {
    (*graph_.mutable_node(cast)->mutable_attr())["SrcT"].set_type(graph_.NewDtype(from));
    Connect({cast, 0}, graph_.InputName(from));
  }

  // Before: MatMul(x). After: MatMul(Cast(Cast(x))), through a low type and back. The low type is
  // the one requested for the input, or else the one requested for the tensor. Returns false if
  // neither has one.
  bool ConnectRounded(const InputPort& input, const OutputPort& from, DataType wanted) {
    const auto of_input = rounded_inputs_.find({input.node, input.index});
    if (of_input != rounded_inputs_.end()) {
      Connect(input, casts_.Rounded(from, of_input->second, input.node));
      return true;
    }
    if (rounded_outputs_.empty() || IsRounding(from.node) || CarriesIntoLoop(from.node)) {
      return false;
    }
    const OutputPort source = view_.LookThroughInserted(from);
    const auto of_output = rounded_outputs_.find({source.node, source.port});
    if (of_output == rounded_outputs_.end() || of_output->second == wanted) return false;
    const std::string rounded = casts_.Rounded(source, of_output->second, input.node);
    Connect(input, IsLowType(wanted)
                       ? casts_.LowOf(rounded, wanted, graph_.node(source.node).device())
                       : rounded);
    return true;
  }

  // Whether a node of an earlier run brings a converted value into a loop.
  bool CarriesIntoLoop(int id) const {
    return view_.IsInserted(id) && !view_.IsTransparentCast(id);
  }

  // Whether a node is the second of two Casts of an earlier run that round.
  bool IsRounding(int id) const {
    return view_.IsTransparentCast(id) && view_.IsTransparentCast(view_.fanin(id)[0].node) &&
           view_.outputs(id)[0].dtype == tensorflow::DT_FLOAT;
  }

  void Connect(const InputPort& input, const std::string& name) {
    graph_.mutable_node(input.node)->set_input(input.index, name);
  }

  const GraphView& view_;
  const Decisions& decisions_;
  const DecideContext& context_;
  GraphDef& out_;
  ChangedGraph graph_;
  const std::set<std::string> varying_;
  SharedCasts casts_;
  NewNames new_names_;  // of nodes with state
  // By node and port.
  std::map<std::pair<int, int>, DataType> rounded_inputs_, rounded_outputs_;
};

}  // namespace

tensorflow::Status InsertCasts(PassState* state, bool* changed) {
  const Decided& decided = state->decided;
  *changed = decided.decisions.ChangesAnything(*decided.view);
  if (!*changed) return tensorflow::Status();
  GraphDef* out = state->NewGraph();
  CopyWithoutValues(*decided.graph, out);
  CastInserter(*decided.view, decided.decisions, state->context, out).Run();
  return tensorflow::Status();
}

}  // namespace npu_precision
