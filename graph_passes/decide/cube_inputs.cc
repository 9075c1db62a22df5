#include "graph_passes/decide/cube_inputs.h"

#include "graph_passes/graph/fused_ops.h"
#include "graph_passes/graph/op_traits.h"

namespace npu_precision {

void DecideCubeInputs(const GraphView& view, tensorflow::DataType low_type, Decisions* decisions) {
  for (int id = 0; id < view.size(); ++id) {
    Decision& decision = decisions->nodes[id];
    if (decision.reason != Reason::kNotMatrixOrConvolution) continue;
    if (!IsMatrixOrConvolution(OpsOf(view.node(id)).front())) continue;
    // Further inputs of a fused op, such as the bias, do not reach the cube unit.
    const bool fused = StandsForSeveral(view.node(id));
    for (int k = 0; k < view.num_inputs(id) && !(fused && k == 2); ++k) {
      const Port& port = view.inputs(id)[k];
      if (port.dtype != tensorflow::DT_FLOAT || port.group == kFixedDtype) continue;
      decisions->rounded_inputs.push_back({{id, k}, low_type});
      decision.reason = Reason::kInputsRounded;
    }
  }
}

}  // namespace npu_precision
