// Stands in for graph_passes/rewrite/same_padding.cc: a pass that lies about what it changed. In
// bfloat16 it says that it changed the graph, and did not; in float16 it changes one silently.
#include "graph_passes/rewrite/same_padding.h"

namespace npu_precision {

tensorflow::Status WriteSamePadding(PassState* state, bool* changed) {
  *changed = state->context.mode.low_type == tensorflow::DT_BFLOAT16;
  if (!*changed) state->Editable()->mutable_node(0)->set_device("/device:CPU:0");
  return tensorflow::Status();
}

}  // namespace npu_precision
