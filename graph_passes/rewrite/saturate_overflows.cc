#include "graph_passes/rewrite/saturate_overflows.h"

#include "absl/strings/str_cat.h"
#include "graph_passes/graph/marks.h"
#include "graph_passes/graph/private_ops.h"
#include "tensorflow/core/framework/attr_value.pb.h"

namespace npu_precision {

using tensorflow::DataType;
using tensorflow::GraphDef;
using tensorflow::NodeDef;

namespace {

bool RoundsToHalf(const NodeDef& node) {
  return node.op() == "Cast" && node.attr().at("SrcT").type() == tensorflow::DT_FLOAT &&
         node.attr().at("DstT").type() == tensorflow::DT_HALF;
}

void Saturate(bool reports, NodeDef* cast) {
  cast->set_op(kSaturateOp);
  for (const char* name : {"SrcT", "DstT", "Truncate"}) cast->mutable_attr()->erase(name);
  (*cast->mutable_attr())["reports"].set_b(reports);
}

// The check keeps its name, which may be fetched.
void AskForOverflow(const GraphView& view, int id, GraphDef* graph) {
  const std::string name = view.node(id).name();
  const std::string device = view.node(id).device();
  std::string gradients = absl::StrCat(name, "/npu_gradients");
  std::string no_overflow = absl::StrCat(name, "/npu_no_overflow");
  while (view.IndexOf(gradients) >= 0) gradients += "_";
  while (view.IndexOf(no_overflow) >= 0) no_overflow += "_";
  // The control dependency makes it run after all gradients, because the check reads all of them.
  NodeDef* asks = graph->add_node();
  asks->set_name(no_overflow);
  asks->set_op(kNoOverflowOp);
  asks->set_device(device);
  asks->add_input(absl::StrCat("^", gradients));
  NodeDef* both = graph->add_node();
  both->set_name(name);
  both->set_op("LogicalAnd");
  both->set_device(device);
  both->add_input(gradients);
  both->add_input(no_overflow);
  NodeDef* check = graph->mutable_node(id);
  ForgetOverflowCheckMark(check);
  check->set_name(gradients);
}

}  // namespace

bool SaturateOverflows(const GraphView& view, const std::set<std::string>& fed, GraphDef* graph) {
  bool changed = false;
  const int size = graph->node_size();
  for (int id = 0; id < size; ++id) {
    const NodeDef& node = graph->node(id);
    const bool is_new = id >= view.size();
    if ((is_new || view.IsInserted(id)) && RoundsToHalf(node)) {
      Saturate(is_new || view.node(view.fanin(id)[0].node).op() != "Const",
               graph->mutable_node(id));
      changed = true;
    } else if (!is_new && HasOverflowCheckMark(node) && fed.count(node.name()) == 0) {
      AskForOverflow(view, id, graph);
      changed = true;
    }
  }
  return changed;
}

}  // namespace npu_precision
