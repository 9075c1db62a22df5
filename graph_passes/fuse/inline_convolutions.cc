#include "graph_passes/fuse/inline_convolutions.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "graph_passes/fuse/fusion_site.h"
#include "graph_passes/graph/function_ops.h"
#include "graph_passes/graph/marks.h"
#include "graph_passes/graph/op_set.h"
#include "tensorflow/core/framework/attr_value.pb.h"

namespace npu_precision {
namespace {

using tensorflow::FunctionDef;
using tensorflow::NodeDef;

const NodeDef* NodeNamed(const FunctionDef& function, const std::string& name) {
  for (const NodeDef& node : function.node_def()) {
    if (node.name() == name) return &node;
  }
  return nullptr;
}

// The node that yields the only result, behind Identity nodes; nullptr if there are more results.
const NodeDef* Producer(const FunctionDef& function) {
  if (function.signature().output_arg_size() != 1 || function.ret_size() != 1) return nullptr;
  std::string tensor = function.ret().begin()->second;
  for (int i = 0; i <= function.node_def_size(); ++i) {
    const NodeDef* node = NodeNamed(function, tensor.substr(0, tensor.find(':')));
    if (node == nullptr || node->op() != "Identity" || node->input_size() != 1) return node;
    tensor = node->input(0);
  }
  return nullptr;
}

bool IsArgumentOf(const FunctionDef& function, const std::string& name) {
  const auto& arguments = function.signature().input_arg();
  return std::any_of(
      arguments.begin(), arguments.end(),
      [&name](const tensorflow::OpDef::ArgDef& each) { return each.name() == name; });
}

bool IsCompiled(const FunctionDef& function) {
  const auto must_compile = function.attr().find(kMustCompile);
  if (must_compile != function.attr().end()) return must_compile->second.b();
  return std::any_of(function.node_def().begin(), function.node_def().end(), HasCompiledMark);
}

}  // namespace

bool IsCompiledConvolution(const FunctionDef& function) {
  if (!IsCompiled(function)) return false;
  const NodeDef* convolution = Producer(function);
  if (convolution == nullptr || convolution->op() != "Conv2D") return false;
  const auto& nodes = function.node_def();
  const auto is_other = [convolution](const NodeDef& node) {
    return &node != convolution && node.op() != "Identity" && node.op() != "NoOp";
  };
  const auto& inputs = convolution->input();
  return std::none_of(nodes.begin(), nodes.end(), is_other) &&
         std::all_of(inputs.begin(), inputs.end(), [&function](const std::string& input) {
           return IsArgumentOf(function, input);
         });
}

tensorflow::Status InlineConvolutions(PassState* state, bool* changed) {
  *changed = false;
  std::map<std::string, const FunctionDef*> convolutions;
  for (const FunctionDef& function : state->graph().library().function()) {
    if (IsCompiledConvolution(function)) convolutions[function.signature().name()] = &function;
  }
  if (convolutions.empty()) return tensorflow::Status();
  const GraphView& view = state->view();
  const FusionSite site(*state);
  const OpSet calls(view, IsCall);
  for (int id : calls.Ids()) {
    const auto called = convolutions.find(view.node(id).attr().at("f").func().name());
    if (called == convolutions.end() || !site.MayChange(id)) continue;
    const FunctionDef& function = *called->second;
    NodeDef convolution = *Producer(function);
    convolution.set_device(view.node(id).device());
    if (!state->context.support->HasOneDnn(convolution, state->context.mode.low_type)) continue;
    NodeDef* node = state->Copied()->mutable_node(id);
    node->set_op(convolution.op());
    const auto inputs = node->input();
    node->clear_input();
    for (const std::string& argument : convolution.input()) {
      const auto& arguments = function.signature().input_arg();
      for (int i = 0; i < arguments.size(); ++i) {
        if (arguments[i].name() == argument) node->add_input(inputs[i]);
      }
    }
    for (int i = function.signature().input_arg_size(); i < inputs.size(); ++i) {
      node->add_input(inputs[i]);  // control inputs
    }
    *node->mutable_attr() = convolution.attr();
    state->rewrites.push_back({"inline_convolutions", node->name(), view.node(id).op(), "Conv2D"});
    *changed = true;
  }
  return tensorflow::Status();
}

}  // namespace npu_precision
