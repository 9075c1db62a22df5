// Stands in for graph_passes/fuse/same_padding.cc: a pass that misreports what it changed. In
// bfloat16 it reports a change and makes none; in float16 it makes one and does not report it.
#include "graph_passes/fuse/same_padding.h"

namespace npu_precision {

tensorflow::Status WriteSamePadding(PassState* state, bool* changed) {
  *changed = state->context.mode.low_type == tensorflow::DT_BFLOAT16;
  if (!*changed) state->Editable()->mutable_node(0)->set_device("/device:CPU:0");
  return tensorflow::Status();
}

}  // namespace npu_precision
