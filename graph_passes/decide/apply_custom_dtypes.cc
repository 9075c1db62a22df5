#include "graph_passes/decide/apply_custom_dtypes.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph_passes/decide/precision_mode.h"
#include "graph_passes/decide/reasons.h"
#include "graph_passes/graph/dtype_names.h"
#include "graph_passes/graph/low_types.h"
#include "graph_passes/graph/marks.h"
#include "graph_passes/graph/op_traits.h"
#include "graph_passes/graph/quoted.h"

namespace npu_precision {
namespace {

using tensorflow::DataType;

// The dtype of a group after another request: float32 if two requests differ.
DataType Wider(DataType so_far, DataType dtype) {
  if (!IsLowType(dtype)) dtype = tensorflow::DT_FLOAT;
  return so_far == tensorflow::DT_INVALID || so_far == dtype ? dtype : tensorflow::DT_FLOAT;
}

DataType WidestOf(absl::Span<const Port> ports, const std::vector<DataType>& dtypes, int group,
                  DataType wanted) {
  for (size_t k = 0; k < std::min(ports.size(), dtypes.size()); ++k) {
    if (ports[k].group == group) wanted = Wider(wanted, dtypes[k]);
  }
  return wanted;
}

// Whether only the kernels and the target keep the dtype of a node. A control flow op yields its
// input unchanged, and nothing may stand between the ops on one TensorArray.
bool CanRound(const std::string& op, const NodeClass& node) {
  if (IsControlFlow(op) || HasElementDtype(op)) return false;
  return !node.is_neutral &&
         (node.fixed == Reason::kNone || KindOf(node.fixed) == ReasonKind::kSupport);
}

bool IsAscends(const CustomDtypes& line) {
  return line.names_op && line.ops != std::vector<std::string>{line.subject};
}

class Rounder {
 public:
  Rounder(const GraphView& view, const NodeClasses& classes, Decisions* decisions)
      : view_(view), classes_(classes), decisions_(*decisions) {}

  void Run() {
    for (int id = 0; id < view_.size(); ++id) {
      if (classes_.nodes[id].custom != nullptr) RoundPortsOf(id, *classes_.nodes[id].custom);
    }
    for (const auto& entry : unfollowed_) {
      const CustomDtypes& line = *entry.first.first;
      const Nodes& nodes = entry.second;
      decisions_.warnings.push_back(absl::StrCat(
          line.place, ": ", Quoted(line.subject), " ", entry.first.second, " (", nodes.count,
          nodes.count == 1 ? " node, " : " nodes, such as ", Quoted(nodes.first), ")"));
    }
  }

 private:
  struct Nodes {
    int count = 0;
    std::string first;
  };

  void RoundPortsOf(int id, const CustomDtypes& line) {
    const NodeClass& node = classes_.nodes[id];
    // Nodes that autocast() marked for another run are decided there.
    if (node.fixed == Reason::kOutsideAutocast) return;
    if (!CanRound(view_.node(id).op(), node)) return WarnOfUnrounded(id, line);
    const absl::Span<const Port> inputs = view_.inputs(id), outputs = view_.outputs(id);
    bool rounds = false;
    for (size_t k = 0; k < std::min(inputs.size(), line.inputs.size()); ++k) {
      const InputPort input = {id, static_cast<int>(k)};
      if (!Rounds(id, line, inputs[k].dtype, view_.GroupOf(input), line.inputs[k])) continue;
      rounds = true;
      if (IsRounded(input, line.inputs[k])) continue;
      decisions_.rounded_inputs.push_back({input, line.inputs[k]});
    }
    for (size_t k = 0; k < std::min(outputs.size(), line.outputs.size()); ++k) {
      const OutputPort output = {id, static_cast<int>(k)};
      if (!Rounds(id, line, outputs[k].dtype, view_.GroupOf(output), line.outputs[k])) continue;
      rounds = true;
      if (IsRounded(output, line.outputs[k])) continue;
      decisions_.rounded_outputs.push_back({output, line.outputs[k]});
    }
    WarnOfCount(id, line, "inputs", inputs.size(), line.inputs.size());
    WarnOfCount(id, line, "outputs", outputs.size(), line.outputs.size());
    Decision& decision = decisions_.nodes[id];
    decision.listing.listed_by = &line.place;
    if (!rounds) return;
    // In a mode that changes no float32 dtypes, the node has no decision yet.
    if (decision.verdict == Verdict::kNotFloat) decision.verdict = Verdict::kKept;
    decision.reason = Reason::kCustomized;
    decision.cause = -1;
  }

  void WarnOfUnrounded(int id, const CustomDtypes& line) {
    const NodeClass& node = classes_.nodes[id];
    const absl::Span<const Port> inputs = view_.inputs(id), outputs = view_.outputs(id);
    bool differs = false;
    for (size_t k = 0; k < std::min(inputs.size(), line.inputs.size()); ++k) {
      differs |= Decided(inputs[k], InputPort{id, static_cast<int>(k)}) != line.inputs[k];
    }
    for (size_t k = 0; k < std::min(outputs.size(), line.outputs.size()); ++k) {
      differs |= Decided(outputs[k], OutputPort{id, static_cast<int>(k)}) != line.outputs[k];
    }
    if (!differs) return;
    const Reason reason = node.fixed == Reason::kNone ? Reason::kSharesDtype : node.fixed;
    Warn(id, line, absl::StrCat("cannot be followed: ", ReasonName(reason)));
  }

  template <typename AnyPort>
  DataType Decided(const Port& port, const AnyPort& place) const {
    const int group = view_.GroupOf(place);
    return group == kNoGroup ? port.dtype : decisions_.group_dtypes[group];
  }

  // Whether an earlier run rounded it.
  bool IsRounded(const InputPort& input, DataType dtype) const {
    int back = view_.fanin(input.node)[input.index].node;
    // Skip the nodes that carry the rounded value into a loop.
    while (view_.IsInserted(back) && !view_.IsTransparentCast(back) && view_.num_fanin(back) > 0) {
      back = view_.fanin(back)[0].node;
    }
    return view_.IsTransparentCast(back) && view_.dtype(view_.fanin(back)[0]) == dtype;
  }
  bool IsRounded(const OutputPort& output, DataType dtype) const {
    DecisionMark mark;
    if (!ReadDecisionMark(view_.node(output.node), &mark)) return false;
    for (const InputPort& consumer : view_.fanout(output)) {
      if (!IsInsertedCastTo(consumer.node, dtype) && !RoundsInputs(consumer.node)) return false;
    }
    return true;
  }
  // Whether a node is the first of two Casts that round, and its consumers only read the rounded
  // value.
  bool RoundsInputs(int id) const {
    if (!view_.IsTransparentCast(id)) return false;
    for (const InputPort& consumer : view_.fanout(id)) {
      if (!IsInsertedCastTo(consumer.node, tensorflow::DT_FLOAT)) return false;
    }
    return true;
  }
  bool IsInsertedCastTo(int id, DataType dtype) const {
    return view_.IsTransparentCast(id) && view_.outputs(id)[0].dtype == dtype;
  }

  // Whether a port that has `dtype`, and is bound to `group` or kNoGroup, must be rounded.
  bool Rounds(int id, const CustomDtypes& line, DataType dtype, int group, DataType wanted) {
    const DataType decided = group == kNoGroup ? dtype : decisions_.group_dtypes[group];
    if (wanted == decided) return false;
    if (decided == tensorflow::DT_FLOAT && IsLowType(wanted)) return true;
    // Ascend's ops may have floats where TensorFlow's have integers, such as sizes.
    const bool is_float = IsLowType(decided) || decided == tensorflow::DT_FLOAT;
    if (is_float || !IsAscends(line)) {
      Warn(id, line,
           absl::StrCat("cannot give ", DtypeName(wanted), " to what is of ", DtypeName(decided),
                        " and keeps that"));
    }
    return false;
  }

  // Ascend's ops may have more ports than TensorFlow's, for example an optional bias.
  void WarnOfCount(int id, const CustomDtypes& line, const char* what, size_t has, size_t given) {
    if (given <= has || IsAscends(line)) return;
    Warn(id, line, absl::StrCat("has dtypes for ", given, " ", what, ", and there are ", has));
  }

  void Warn(int id, const CustomDtypes& line, const std::string& what) {
    Nodes& nodes = unfollowed_[{&line, what}];
    if (nodes.count++ == 0) nodes.first = view_.node(id).name();
  }

  const GraphView& view_;
  const NodeClasses& classes_;
  Decisions& decisions_;
  // By line, and by the problem. The lines are in one vector, so pointers order them.
  std::map<std::pair<const CustomDtypes*, std::string>, Nodes> unfollowed_;
};

}  // namespace

// A mode that lowers nothing has no passes for low types either, so its nodes compute in float32 on
// rounded values.
bool AsksForChange(const DecideContext& context, DataType wanted) {
  const ModeRule rule = context.mode.rule;
  return (Lowers(rule) || rule == ModeRule::kForceFloat32) && wanted == context.NewDtype();
}

DataType WantedOfGroup(const GraphView& view, int id, int group, const CustomDtypes& line) {
  const DataType of_inputs = WidestOf(view.inputs(id), line.inputs, group, tensorflow::DT_INVALID);
  return WidestOf(view.outputs(id), line.outputs, group, of_inputs);
}

void RoundCustomPorts(const GraphView& view, const NodeClasses& classes, Decisions* decisions) {
  Rounder(view, classes, decisions).Run();
}

}  // namespace npu_precision
