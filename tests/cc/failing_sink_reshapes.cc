// Stands in for graph_passes/fuse/sink_reshapes.cc: a pass that damages the graph as attributes
// of its nodes say, for tests of what is verified after a pass.
//   _damage_name   the node gets this name
//   _damage_input  its first input becomes this one
//   _damage_type   this type attribute becomes float16
#include "graph_passes/fuse/sink_reshapes.h"
#include "tensorflow/core/framework/attr_value.pb.h"

namespace npu_precision {
namespace {

using tensorflow::NodeDef;

std::string Text(const NodeDef& node, const char* name) {
  const auto found = node.attr().find(name);
  return found == node.attr().end() ? "" : found->second.s();
}

}  // namespace

tensorflow::Status SinkReshapes(PassState* state, bool* changed) {
  for (NodeDef& node : *state->Editable()->mutable_node()) {
    const std::string name = Text(node, "_damage_name"), input = Text(node, "_damage_input"),
                      type = Text(node, "_damage_type");
    if (!name.empty()) node.set_name(name);
    if (!input.empty()) node.set_input(0, input);
    if (!type.empty()) (*node.mutable_attr())[type].set_type(tensorflow::DT_HALF);
    *changed |= !(name + input + type).empty();
  }
  return tensorflow::Status();
}

}  // namespace npu_precision
