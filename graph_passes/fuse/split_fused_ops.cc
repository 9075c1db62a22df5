#include "graph_passes/fuse/split_fused_ops.h"

#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "graph_passes/decide/plan_fused_ops.h"
#include "graph_passes/graph/fused_ops.h"
#include "tensorflow/core/framework/attr_value.pb.h"

namespace npu_precision {
namespace {

using tensorflow::NodeDef;

constexpr char kPass[] = "split_fused_ops";

bool IsOfFloat32(const NodeDef& node) {
  const auto dtype = node.attr().find("T");
  return dtype != node.attr().end() && dtype->second.type() == tensorflow::DT_FLOAT;
}

}  // namespace

tensorflow::Status SplitFusedOps(PassState* state, bool* changed) {
  *changed = false;
  if (!HasFusedOps(state->graph())) return tensorflow::Status();
  const DecideContext& context = state->context;
  const auto may_split = [&context](const NodeDef& node) {
    return IsOfFloat32(node) && context.support->HasOwnOps(node) && MaySplit(node, context);
  };
  std::vector<Expansion> expansions;
  ExpandFusedOps(state->graph(), may_split, state->NewGraph(), &expansions);
  for (const Expansion& expansion : expansions) {
    const NodeDef& fused = state->view().node(state->view().IndexOf(expansion.fused));
    state->rewrites.push_back({kPass, fused.name(), fused.op(), absl::StrJoin(OpsOf(fused), "+")});
  }
  *changed = !expansions.empty();
  state->decided.found_fused_ops = *changed;
  return tensorflow::Status();
}

}  // namespace npu_precision
