#include "graph_passes/rewrite/emulate.h"

#include "graph_passes/decide/lowered_groups.h"
#include "graph_passes/graph/marks.h"
#include "graph_passes/graph/op_set.h"
#include "graph_passes/graph/op_traits.h"
#include "graph_passes/rewrite/raise_groups.h"
#include "graph_passes/rewrite/round_for_xla.h"
#include "graph_passes/rewrite/saturate_overflows.h"

namespace npu_precision {

tensorflow::Status EmulateLowTypes(PassState* state, bool* changed) {
  const GraphView& view = state->view();
  tensorflow::GraphDef* graph = state->Editable();
  // An op that moves rounded values yields rounded values.
  const OpSet moves_values(view, MovesValues);
  *changed = GroupRaiser(view, graph, LoweredGroups(view), "npu_emulated").Run([&](int id) {
    return moves_values.Has(id);
  });
  if (state->context.compiled) *changed |= !RoundForXla(graph).empty();
  for (tensorflow::NodeDef& node : *graph->mutable_node()) *changed |= ForgetMarks(&node);
  if (state->saturates) *changed |= SaturateOverflows(view, state->context.fed, graph);
  return tensorflow::Status();
}

}  // namespace npu_precision
