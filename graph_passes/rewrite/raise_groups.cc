#include "graph_passes/rewrite/raise_groups.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "graph_passes/graph/dtype_names.h"
#include "graph_passes/graph/low_types.h"
#include "graph_passes/graph/marks.h"
#include "graph_passes/rewrite/cast_nodes.h"

namespace npu_precision {

using tensorflow::DataType;
using tensorflow::NodeDef;

GroupRaiser::GroupRaiser(const GraphView& view, tensorflow::GraphDef* graph,
                         std::vector<bool> raised, std::string suffix)
    : view_(view),
      graph_(*graph),
      raised_(std::move(raised)),
      suffix_(std::move(suffix)),
      names_(view) {}

bool GroupRaiser::Run(const std::function<bool(int id)>& reads_unrounded) {
  for (int g = 0; g < view_.num_groups(); ++g) {
    if (!raised_[g]) continue;
    const int id = view_.node_of_group(g);
    SetGroupDtype(*view_.op_def(id), view_.group_numbered(g), tensorflow::DT_FLOAT,
                  graph_.mutable_node(id));
    changed_ = true;
  }
  for (int id = 0; id < view_.size(); ++id) {
    for (int k = 0; k < view_.num_fanin(id); ++k) Connect(id, k, reads_unrounded);
  }
  return changed_;
}

void GroupRaiser::Connect(int id, int k, const std::function<bool(int id)>& reads_unrounded) {
  if (view_.op_def(id) == nullptr) return;
  const OutputPort from = view_.fanin(id)[k];
  const DataType low = view_.inputs(id)[k].dtype;
  if (view_.op_def(from.node) == nullptr || !IsLowType(low) || view_.dtype(from) != low) return;
  const bool wants_float32 = IsRaised(view_.GroupOf(InputPort{id, k}));
  std::string name = InputName(view_.node(from.node).name(), from.port);
  if (IsRaised(view_.GroupOf(from))) {
    if (wants_float32 && reads_unrounded(from.node)) return;
    name = Cast(from, name, tensorflow::DT_FLOAT, low);
  }
  if (wants_float32) name = Cast(from, name, low, tensorflow::DT_FLOAT);
  if (name == view_.node(id).input(k)) return;
  graph_.mutable_node(id)->set_input(k, name);
  changed_ = true;
}

const std::string& GroupRaiser::Cast(const OutputPort& from, const std::string& input,
                                     DataType source, DataType wanted) {
  std::string& name = casts_[{{from.node, from.port}, wanted}];
  if (!name.empty()) return name;
  const NodeDef& producer = view_.node(from.node);
  name = names_.Take(
      absl::StrCat(producer.name(), "/", suffix_, "_", from.port, "_", DtypeName(wanted)));
  MarkInserted(AddCast(name, input, source, wanted, producer.device(), &graph_));
  return name;
}

}  // namespace npu_precision
