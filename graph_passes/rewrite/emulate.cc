#include "graph_passes/rewrite/emulate.h"

#include <map>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph_passes/decide/precision_mode.h"
#include "graph_passes/graph/dtype_names.h"
#include "graph_passes/graph/marks.h"
#include "graph_passes/graph/op_set.h"
#include "graph_passes/graph/op_traits.h"
#include "graph_passes/rewrite/cast_nodes.h"
#include "graph_passes/rewrite/saturate_overflows.h"
#include "tensorflow/core/framework/attr_value.pb.h"

namespace npu_precision {
namespace {

using tensorflow::DataType;
using tensorflow::NodeDef;

class Emulator {
 public:
  Emulator(const GraphView& view, tensorflow::GraphDef* graph)
      : view_(view), graph_(*graph), moves_values_(view, MovesValues), raised_(view.num_groups()) {}

  // Whether anything changed.
  bool Run() {
    for (int id = 0; id < view_.size(); ++id) Raise(id);
    for (int id = 0; id < view_.size(); ++id) {
      for (int k = 0; k < view_.num_fanin(id); ++k) Connect(id, k);
    }
    for (NodeDef& node : *graph_.mutable_node()) changed_ |= ForgetMarks(&node);
    return changed_;
  }

 private:
  // Back to float32, but for Casts between the two, which are where values are rounded.
  void Raise(int id) {
    const NodeDef& node = view_.node(id);
    DecisionMark mark;
    const bool carries = view_.IsInserted(id) && node.op() != "Cast";
    if (!carries && !ReadDecisionMark(node, &mark)) return;
    for (int g = 0; g < view_.num_groups(id); ++g) {
      const TypeGroup& group = view_.groups(id)[g];
      const bool lowered = carries || mark.before.count(GroupName(*view_.op_def(id), group)) != 0;
      if (!lowered || !IsLowType(group.dtype)) continue;
      SetGroupDtype(*view_.op_def(id), group, tensorflow::DT_FLOAT, graph_.mutable_node(id));
      raised_[view_.first_group(id) + g] = true;
      changed_ = true;
    }
  }

  bool IsRaised(int group) const { return group != kNoGroup && raised_[group]; }

  void Connect(int id, int k) {
    if (view_.op_def(id) == nullptr) return;
    const OutputPort from = view_.fanin(id)[k];
    const DataType low = view_.inputs(id)[k].dtype;
    if (view_.op_def(from.node) == nullptr || !IsLowType(low) || view_.dtype(from) != low) return;
    const bool wants_float32 = IsRaised(view_.GroupOf(InputPort{id, k}));
    std::string name = InputName(view_.node(from.node).name(), from.port);
    if (IsRaised(view_.GroupOf(from))) {
      // What moves values that were rounded yields such.
      if (wants_float32 && moves_values_.Has(from.node)) return;
      name = Cast(from, name, tensorflow::DT_FLOAT, low);
    }
    if (wants_float32) name = Cast(from, name, low, tensorflow::DT_FLOAT);
    if (name == view_.node(id).input(k)) return;
    graph_.mutable_node(id)->set_input(k, name);
    changed_ = true;
  }

  // The name of a Cast, of which there is one for each tensor and dtype.
  const std::string& Cast(const OutputPort& from, const std::string& input, DataType source,
                          DataType wanted) {
    std::string& name = casts_[{{from.node, from.port}, wanted}];
    if (!name.empty()) return name;
    const NodeDef& producer = view_.node(from.node);
    name = absl::StrCat(producer.name(), "/npu_emulated_", from.port, "_", DtypeName(wanted));
    while (view_.IndexOf(name) >= 0) name += "_";
    AddCast(name, input, source, wanted, producer.device(), &graph_);
    return name;
  }

  const GraphView& view_;
  tensorflow::GraphDef& graph_;
  const OpSet moves_values_;
  bool changed_ = false;
  std::vector<bool> raised_;  // by group
  std::map<std::pair<std::pair<int, int>, DataType>, std::string> casts_;
};

}  // namespace

tensorflow::Status EmulateLowTypes(PassState* state, bool* changed) {
  *changed = Emulator(state->view(), state->Editable()).Run();
  if (state->saturates) {
    *changed |= SaturateOverflows(state->view(), state->context.fed, state->Editable());
  }
  return tensorflow::Status();
}

}  // namespace npu_precision
