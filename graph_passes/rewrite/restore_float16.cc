#include "graph_passes/rewrite/restore_float16.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph_passes/graph/constant_values.h"
#include "graph_passes/graph/dtype_names.h"
#include "graph_passes/graph/low_types.h"
#include "graph_passes/graph/marks.h"
#include "graph_passes/rewrite/cast_nodes.h"
#include "graph_passes/rewrite/unique_names.h"
#include "tensorflow/core/lib/core/errors.h"

namespace npu_precision {
namespace {

using tensorflow::DataType;
using tensorflow::GraphDef;
using tensorflow::NodeDef;

class Restorer {
 public:
  Restorer(const GraphView& view, const DecideContext& context)
      : view_(view), context_(context), is_rounding_(view.size(), false) {}

  // Whether there is any change to undo.
  bool Finds() {
    bool found = false;
    for (int id = 0; id < view_.size(); ++id) {
      const NodeDef& node = view_.node(id);
      is_rounding_[id] = view_.IsTransparentCast(id) && IsRounding(node);
      found = found || is_rounding_[id] || !GroupsInFloat32(node).empty();
      if (context_.IsFixed(node.name())) is_rounding_[id] = false;
    }
    return found;
  }

  void CopyTo(const GraphDef& graph, GraphDef* out) const {
    CopyAllButNodes(graph, out);
    for (int id = 0; id < view_.size(); ++id) {
      if (is_rounding_[id]) continue;
      NodeDef* node = out->add_node();
      CopyWithoutValue(view_.node(id), node);
      Restore(id, node);
      for (int k = 0; k < node->input_size(); ++k) ReadPastRounding(id, k, node);
    }
  }

 private:
  void Restore(int id, NodeDef* node) const {
    const std::map<std::string, DataType> groups = GroupsInFloat32(*node);
    ForgetRounding(node);
    if (groups.empty()) return;
    for (const TypeGroup& group : view_.groups(id)) {
      if (group.dtype != tensorflow::DT_FLOAT) continue;
      const tensorflow::OpDef& op_def = *view_.op_def(id);
      const auto low = groups.find(GroupName(op_def, group));
      if (low != groups.end()) SetGroupDtype(op_def, group, low->second, node);
    }
  }

  void ReadPastRounding(int id, int k, NodeDef* node) const {
    const bool is_control = node->input(k)[0] == '^';
    int producer = is_control ? view_.IndexOf(absl::string_view(node->input(k)).substr(1))
                              : view_.fanin(id)[k].node;
    if (!is_rounding_[producer]) return;
    const OutputPort source = view_.LookThrough(view_.fanin(producer)[0],
                                                [this](int other) { return is_rounding_[other]; });
    const std::string& name = view_.node(source.node).name();
    node->set_input(k, is_control ? absl::StrCat("^", name) : InputName(name, source.port));
  }

  const GraphView& view_;
  const DecideContext& context_;
  std::vector<bool> is_rounding_;  // by node id: a Cast to drop
};

// Puts a Cast on each edge from float32 to a low type or back.
tensorflow::Status ConnectDisagreeing(GraphDef* graph) {
  GraphView view;
  TF_RETURN_IF_ERROR(GraphView::Build(*graph, &view));
  UniqueNames names(view);
  std::map<std::pair<int, int>, std::string> casts;  // by tensor
  for (int id = 0; id < view.size(); ++id) {
    for (int k = 0; k < view.num_inputs(id); ++k) {
      const OutputPort from = view.fanin(id)[k];
      const DataType yields = view.dtype(from), wants = view.inputs(id)[k].dtype;
      const bool widens = IsLowType(yields) && wants == tensorflow::DT_FLOAT;
      const bool narrows = yields == tensorflow::DT_FLOAT && IsLowType(wants);
      if (!widens && !narrows) continue;
      const NodeDef& producer = view.node(from.node);
      std::string& name = casts[{from.node, from.port}];
      if (name.empty()) {
        name = names.Take(
            absl::StrCat(producer.name(), "/npu_cast_", from.port, "_", DtypeName(wants)));
        MarkInserted(AddCast(name, InputName(producer.name(), from.port), yields, wants,
                             producer.device(), graph));
      }
      graph->mutable_node(id)->set_input(k, name);
    }
  }
  return tensorflow::Status();
}

}  // namespace

tensorflow::Status RestoreFloat16(PassState* state, bool* changed) {
  Restorer restorer(state->view(), state->context);
  *changed = restorer.Finds();
  if (!*changed) return tensorflow::Status();
  GraphDef* out = state->NewGraph();
  restorer.CopyTo(state->graph(), out);
  return ConnectDisagreeing(out);
}

}  // namespace npu_precision
