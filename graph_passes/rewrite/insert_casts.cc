#include "graph_passes/rewrite/insert_casts.h"

#include <map>
#include <set>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "graph_passes/analysis/loop_invariants.h"
#include "graph_passes/analysis/reference_reads.h"
#include "graph_passes/graph/constant_values.h"
#include "graph_passes/graph/drop_unused.h"
#include "graph_passes/graph/dtype_names.h"
#include "graph_passes/graph/marks.h"
#include "tensorflow/core/framework/attr_value.pb.h"

namespace npu_precision {
namespace {

using tensorflow::DataType;
using tensorflow::GraphDef;
using tensorflow::NodeDef;

// Type information of later TensorFlows that repeats the dtypes; the runtime infers it anew.
void ForgetFullType(NodeDef* node) {
  const auto* field = NodeDef::descriptor()->FindFieldByName("experimental_type");
  if (field != nullptr) node->GetReflection()->ClearField(node, field);
}

// Control inputs and colocations name nodes too.
void FollowMoved(const std::unordered_map<std::string, std::string>& moved, GraphDef* graph) {
  for (NodeDef& node : *graph->mutable_node()) {
    for (std::string& input : *node.mutable_input()) {
      if (input[0] != '^') continue;
      const auto found = moved.find(input.substr(1));
      if (found != moved.end()) input = absl::StrCat("^", found->second);
    }
    ColocateWithMoved(moved, &node);
  }
}

// Whether a node has control inputs: a consumer that reads past it would no longer wait for them.
bool Waits(const NodeDef& node, int data_inputs) { return node.input_size() > data_inputs; }

class Rewriter {
 public:
  Rewriter(const GraphDef& graph, const GraphView& view, const Decisions& decisions,
           const DecideContext& context, GraphDef* out)
      : view_(view),
        decisions_(decisions),
        context_(context),
        invariants_(view, context.fed),
        references_(view, context.fed),
        renamed_(view.size(), false),
        out_(*out) {
    CopyWithoutValues(graph, &out_);
  }

  void Run() {
    bool inserted_before = false;
    for (int id = 0; id < view_.size(); ++id) {
      inserted_before |= view_.IsInserted(id);
      FindInsertedCast(id);
    }
    MoveStateful();
    for (int id = 0; id < view_.size(); ++id) ChangeTypes(id);
    for (int id = 0; id < view_.size(); ++id) {
      for (int k = 0; k < view_.fanin(id).size(); ++k) ConnectInput(id, k);
    }
    for (const InputPort& input : decisions_.rounded_inputs) RoundInput(input);
    if (!moved_.empty()) FollowMoved(moved_, &out_);
    if (inserted_before) DropUnused(context_.preserved, &out_);
  }

 private:
  using Tensor = std::pair<int, int>;  // node id, port
  enum Conversion { kCast, kRound };   // kRound: through the low type and back

  DataType NewDtype(const OutputPort& port) const {
    if (view_.op_def(port.node) == nullptr) return tensorflow::DT_INVALID;
    const Port& output = view_.outputs(port.node)[port.port];
    if (output.group == kFixedDtype) return output.dtype;
    return decisions_.group_dtypes[view_.first_group(port.node) + output.group];
  }

  DataType NewInputDtype(int id, int k) const {
    const Port& input = view_.inputs(id)[k];
    if (input.group == kFixedDtype) return input.dtype;
    return decisions_.group_dtypes[view_.first_group(id) + input.group];
  }

  // The Casts of an earlier run are shared with this one's.
  void FindInsertedCast(int id) {
    if (!view_.IsTransparentCast(id)) return;
    const OutputPort from = view_.fanin(id)[0];
    casts_.emplace(std::make_pair(Tensor(from.node, from.port), view_.outputs(id)[0].dtype),
                   view_.node(id).name());
  }

  // A session keeps the kernel of an op with state by the op's name, and what is fetched in another
  // run of the session may decide otherwise about its dtype.
  void MoveStateful() {
    for (int id = 0; id < view_.size(); ++id) {
      if (view_.op_def(id) == nullptr || !view_.op_def(id)->is_stateful()) continue;
      const std::string& name = view_.node(id).name();
      if (!Changes(id) || HasNameMark(view_.node(id))) continue;
      if (context_.preserved.count(name) == 0) moved_[name] = Rename(id);
    }
  }

  bool Changes(int id) const {
    for (int g = 0; g < view_.groups(id).size(); ++g) {
      const DataType dtype = decisions_.group_dtypes[view_.first_group(id) + g];
      if (dtype != view_.groups(id)[g].dtype) return true;
    }
    return false;
  }

  void ChangeTypes(int id) {
    if (!Changes(id)) return;
    NodeDef* node = out_.mutable_node(id);
    for (int g = 0; g < view_.groups(id).size(); ++g) {
      const DataType dtype = decisions_.group_dtypes[view_.first_group(id) + g];
      if (dtype == view_.groups(id)[g].dtype) continue;
      SetGroupDtype(*view_.op_def(id), view_.groups(id)[g], dtype, node);
    }
    ForgetFullType(node);
    Mark(id, node);
    const std::string name = node->name();
    if (context_.preserved.count(name) == 0 || view_.outputs(id).size() != 1) return;
    const DataType old_dtype = view_.outputs(id)[0].dtype;
    if (NewDtype({id, 0}) == old_dtype) return;
    Rename(id);
    AddCast(name, node->name(), NewDtype({id, 0}), old_dtype, node->device());
    casts_[{Tensor(id, 0), old_dtype}] = name;
  }

  const std::string& Rename(int id) {
    NodeDef* node = out_.mutable_node(id);
    node->set_name(Unique(Renamed(node->name())));
    renamed_[id] = true;
    return node->name();
  }

  void Mark(int id, NodeDef* node) const {
    const Decision& decision = decisions_.nodes[id];
    DecisionMark mark;
    mark.decision = VerdictName(decision.verdict);
    mark.list = ListColorName(decision.listing.color);
    mark.reason = ReasonName(decision.reason);
    if (decision.cause >= 0) {
      mark.cause = view_.node(decision.cause).name();
      const auto moved = moved_.find(mark.cause);
      if (moved != moved_.end()) mark.cause = moved->second;
    }
    for (int g = 0; g < view_.groups(id).size(); ++g) {
      const TypeGroup& group = view_.groups(id)[g];
      if (decisions_.group_dtypes[view_.first_group(id) + g] == group.dtype) continue;
      mark.before[GroupName(*view_.op_def(id), group)] = DtypeName(group.dtype);
    }
    MarkDecision(mark, node);
  }

  void ConnectInput(int id, int k) {
    if (view_.op_def(id) == nullptr) return;
    OutputPort from = view_.fanin(id)[k];
    // An edge that was wrong before is TensorFlow's to report.
    if (view_.dtype(from) != view_.inputs(id)[k].dtype) return;
    const DataType wanted = NewInputDtype(id, k);
    const bool stays = wanted == NewDtype(from) && !view_.IsTransparent(from.node);
    if (stays && !renamed_[from.node] && !view_.IsTransparentCast(id)) return;
    if (view_.IsTransparentCast(id)) {
      // A Cast of an earlier run takes what its producer yields now.
      (*out_.mutable_node(id)->mutable_attr())["SrcT"].set_type(NewDtype(from));
      out_.mutable_node(id)->set_input(k, InputName(from));
      return;
    }
    out_.mutable_node(id)->set_input(k, Converted(kCast, from, wanted, id));
  }

  // The name of `from`'s tensor in dtype `wanted`. What is the same in every iteration of a loop is
  // converted outside of it, and of all loops around that one.
  // Before: w -> Enter -> Cast. After: w -> Cast -> another Enter.
  std::string Converted(Conversion conversion, OutputPort from, DataType wanted, int consumer) {
    std::vector<OutputPort> inside;  // from the innermost loop outwards
    std::string name;
    for (;;) {
      if (conversion == kCast) name = AsItIs(&from, wanted);
      const int enter = name.empty() ? invariants_.EnterOf(from) : -1;
      if (enter < 0) break;
      inside.push_back(from);
      name = Carried(conversion, {enter, 0}, wanted);
      if (!name.empty()) break;
      from = view_.fanin(enter)[0];
      consumer = enter;
    }
    if (name.empty()) {
      name = conversion == kCast ? CastOf(from, wanted, consumer) : Rounded(from, wanted, consumer);
    }
    for (; !inside.empty(); inside.pop_back()) {
      name = CarryIntoLoop(conversion, inside.back(), name, wanted);
    }
    return name;
  }

  // Without a new node; "" where it takes one. May find that it is another tensor to convert.
  std::string AsItIs(OutputPort* from, DataType wanted) const {
    if (view_.IsTransparentCast(from->node)) {
      const OutputPort source = view_.fanin(from->node)[0];
      if (NewDtype(source) == wanted) *from = source;
    }
    const DataType dtype = NewDtype(*from);
    if (dtype == wanted) return InputName(*from);
    const NodeDef& producer = view_.node(from->node);
    if (producer.op() == "Cast" && context_.fed.count(producer.name()) == 0 &&
        !Waits(producer, 1)) {
      // Undoing a widening is exact: read what was widened.
      const OutputPort source = view_.fanin(from->node)[0];
      if (NewDtype(source) == wanted && IsLowType(wanted) && dtype == tensorflow::DT_FLOAT) {
        return InputName(source);
      }
    }
    if (invariants_.EnterOf(*from) < 0) return "";
    const auto found = casts_.find({Tensor(from->node, from->port), wanted});
    return found == casts_.end() ? "" : found->second;
  }

  std::string CastOf(const OutputPort& from, DataType wanted, int consumer) {
    ReferenceRead read;
    if (references_.Find(from, &read)) {
      const bool shared = !AddWaitsOfReader(consumer, from.node, &read) && !read.in_loop;
      if (!read.waits.empty()) return CastOfReference(from, read, wanted, shared, consumer);
    }
    std::string& name = casts_[{Tensor(from.node, from.port), wanted}];
    if (name.empty()) {
      name = CastName(from, wanted);
      AddCast(name, InputName(from), NewDtype(from), wanted, view_.node(from.node).device());
    }
    return name;
  }

  std::string CastName(const OutputPort& from, DataType dtype) {
    return Unique(
        absl::StrCat(view_.node(from.node).name(), "/npu_cast_", from.port, "_", DtypeName(dtype)));
  }

  // What is in a loop already of a conversion outside of it, or "".
  std::string& Carried(Conversion conversion, const OutputPort& from, DataType wanted) {
    return carried_[std::make_tuple(from.node, from.port, wanted, conversion)];
  }

  // The tensor in the loop for `from`, converted outside to `outside`.
  std::string CarryIntoLoop(Conversion conversion, const OutputPort& from,
                            const std::string& outside, DataType wanted) {
    const int enter = invariants_.EnterOf(from);
    std::string& entered = Carried(conversion, {enter, 0}, wanted);
    if (entered.empty()) {
      entered = CastName({enter, 0}, wanted);
      NodeDef* carrier = AddCarrier(entered, enter, outside, wanted);
      (*carrier->mutable_attr())["is_constant"].set_b(true);
    }
    std::string& here = Carried(conversion, from, wanted);
    if (here.empty()) here = FollowInLoop(from, entered, wanted);
    if (conversion == kCast) casts_[{Tensor(from.node, from.port), wanted}] = here;
    return here;
  }

  // Reading `entered` must wait for what reading `from` waits for, and be dead where that is.
  std::string FollowInLoop(const OutputPort& from, const std::string& entered, DataType wanted) {
    const std::string& op = view_.node(from.node).op();
    if (op != "Switch" && op != "Identity") return entered;
    const std::string name = CastName(from, wanted);
    NodeDef* carrier = AddCarrier(name, from.node, entered, wanted);
    while (carrier->input_size() > view_.fanin(from.node).size()) {
      carrier->mutable_input()->RemoveLast();
    }
    carrier->add_input(absl::StrCat("^", out_.node(from.node).name()));
    return from.port == 0 ? name : absl::StrCat(name, ":", from.port);
  }

  // A copy of node `id` that hands on `input`, of another dtype.
  NodeDef* AddCarrier(const std::string& name, int id, const std::string& input, DataType dtype) {
    NodeDef* carrier = out_.add_node();
    *carrier = view_.node(id);
    carrier->set_name(name);
    carrier->set_input(0, input);
    (*carrier->mutable_attr())["T"].set_type(dtype);
    carrier->mutable_attr()->erase("_output_shapes");
    ForgetFullType(carrier);
    MarkInserted(carrier);
    return carrier;
  }

  // Adds what `reader` waits for: its control inputs and, in a loop that writes the variable, the
  // producers of its other inputs, since an iteration's reads come after the former one's writes
  // because of them. False where it has no control inputs.
  bool AddWaitsOfReader(int reader, int but, ReferenceRead* read) {
    const int data_inputs = view_.fanin(reader).size();
    const bool waits = Waits(view_.node(reader), data_inputs);
    const int count = view_.node(reader).input_size() - (read->in_loop ? 0 : data_inputs);
    if (count <= kMostWaits) {
      AddWaits(view_.node(reader), &read->waits);
      if (read->in_loop) AddProducers(reader, but, &read->waits);
      return waits;
    }
    std::string& collector = collectors_[{reader, read->in_loop}];
    if (collector.empty()) {
      std::set<std::string> all;
      AddWaits(view_.node(reader), &all);
      if (read->in_loop) AddProducers(reader, -1, &all);
      collector = Unique(absl::StrCat(view_.node(reader).name(), "/npu_wait"));
      NodeDef* node = out_.add_node();
      node->set_name(collector);
      node->set_op("NoOp");
      node->set_device(view_.node(reader).device());
      for (const std::string& input : all) node->add_input(input);
      MarkInserted(node);
    }
    read->waits.insert(absl::StrCat("^", collector));
    return waits;
  }

  void AddProducers(int id, int but, std::set<std::string>* waits) const {
    for (const OutputPort& producer : view_.fanin(id)) {
      if (producer.node != but) waits->insert("^" + out_.node(producer.node).name());
    }
  }

  // A reference is read when its reader runs, which may wait for an assignment: so does the Cast,
  // and it reads the reference itself, lest somebody moves it past an Identity that waits.
  std::string CastOfReference(const OutputPort& from, const ReferenceRead& read, DataType wanted,
                              bool shared, int consumer) {
    const auto key = std::make_pair(Tensor(from.node, from.port), wanted);
    const auto found = casts_.find(key);
    if (shared && found != casts_.end()) return found->second;
    const std::string name = shared ? CastName(from, wanted)
                                    : Unique(absl::StrCat(view_.node(consumer).name(),
                                                          "/npu_cast_ref_", DtypeName(wanted)));
    AddCast(name, InputName(read.tensor), NewDtype(read.tensor), wanted,
            view_.node(read.tensor.node).device());
    NodeDef* cast = out_.mutable_node(out_.node_size() - 1);
    for (const std::string& input : read.waits) cast->add_input(input);
    if (shared) casts_[key] = name;
    return name;
  }

  // Before: MatMul(x). After: MatMul(Cast(Cast(x))), through the low type and back.
  void RoundInput(const InputPort& input) {
    NodeDef* node = out_.mutable_node(input.node);
    const OutputPort from = view_.fanin(input.node)[input.index];
    node->set_input(input.index, Converted(kRound, from, tensorflow::DT_FLOAT, input.node));
    Mark(input.node, node);
  }

  std::string Rounded(const OutputPort& from, DataType wanted, int consumer) {
    const std::string low = Converted(kCast, from, context_.mode.low_type, consumer);
    std::string& rounded = rounded_[low];
    if (rounded.empty()) {
      rounded = Unique(
          absl::StrCat(absl::StrReplaceAll(low, {{":", "_"}}), "/npu_cast_0_", DtypeName(wanted)));
      AddCast(rounded, low, context_.mode.low_type, wanted, view_.node(from.node).device());
    }
    return rounded;
  }

  std::string InputName(const OutputPort& port) const {
    const std::string& name = out_.node(port.node).name();
    return port.port == 0 ? name : absl::StrCat(name, ":", port.port);
  }

  std::string Unique(const std::string& wanted) {
    if (IsFree(wanted)) return wanted;
    std::string name;
    do {
      name = absl::StrCat(wanted, "_", ++last_suffix_[wanted]);
    } while (!IsFree(name));
    return name;
  }

  bool IsFree(const std::string& name) {
    return view_.IndexOf(name) < 0 && new_names_.insert(name).second;
  }

  void AddCast(const std::string& name, const std::string& input, DataType from, DataType to,
               const std::string& device) {
    NodeDef* cast = out_.add_node();
    cast->set_name(name);
    cast->set_op("Cast");
    cast->add_input(input);
    cast->set_device(device);
    (*cast->mutable_attr())["SrcT"].set_type(from);
    (*cast->mutable_attr())["DstT"].set_type(to);
    (*cast->mutable_attr())["Truncate"].set_b(false);
    MarkInserted(cast);
  }

  const GraphView& view_;
  const Decisions& decisions_;
  const DecideContext& context_;
  const LoopInvariants invariants_;
  ReferenceReads references_;
  std::vector<bool> renamed_;                           // by node id
  std::unordered_map<std::string, std::string> moved_;  // names that no other node took
  GraphDef& out_;
  std::map<std::pair<Tensor, DataType>, std::string> casts_;
  std::map<std::string, std::string> rounded_;
  std::map<std::tuple<int, int, DataType, Conversion>, std::string> carried_;  // Tensor, dtype
  std::map<std::pair<int, bool>, std::string> collectors_;  // by reader, and whether with producers
  std::unordered_set<std::string> new_names_;
  std::unordered_map<std::string, int> last_suffix_;  // by name that was taken
};

}  // namespace

tensorflow::Status InsertCasts(PassState* state, bool* changed) {
  const Decided& decided = state->decided;
  *changed = decided.decisions.ChangesAnything(*decided.view);
  if (!*changed) return state->KeepAsGiven();
  Rewriter(*decided.graph, *decided.view, decided.decisions, state->context, state->NewGraph())
      .Run();
  return tensorflow::Status();
}

std::string Renamed(const std::string& name) { return absl::StrCat(name, "/npu_changed"); }

}  // namespace npu_precision
