#include "graph_passes/fuse/same_padding.h"

#include <string>

#include "graph_passes/graph/low_types.h"
#include "graph_passes/graph/op_set.h"
#include "graph_passes/rewrite/constants.h"
#include "tensorflow/core/framework/attr_value.pb.h"
#include "tensorflow/core/framework/tensor_shape.pb.h"

namespace npu_precision {
namespace {

bool IsConvolution(const std::string& op) {
  return op == "Conv2D" || op == "DepthwiseConv2dNative";
}

bool IsLowValid(const GraphView& view, int id) {
  const auto padding = view.node(id).attr().find("padding");
  return view.op_def(id) != nullptr && IsLowType(view.outputs(id)[0].dtype) &&
         padding != view.node(id).attr().end() && padding->second.s() == "VALID";
}

bool IsOneByOne(const tensorflow::TensorShapeProto* kernel) {
  return kernel != nullptr && kernel->dim_size() == 4 && kernel->dim(0).size() == 1 &&
         kernel->dim(1).size() == 1;
}

// The weights before fold_scales scaled them.
OutputPort Unscaled(const PassState& state, OutputPort kernel) {
  const GraphView& view = state.view();
  if (view.node(kernel.node).op() == "Cast" && view.num_fanin(kernel.node) == 1) {
    kernel = view.fanin(kernel.node)[0];
  }
  const bool is_scaled = state.scaled_weights.count(view.node(kernel.node).name()) != 0;
  return is_scaled ? view.fanin(kernel.node)[0] : kernel;
}

}  // namespace

tensorflow::Status WriteSamePadding(PassState* state, bool* changed) {
  *changed = false;
  const GraphView& view = state->view();
  const OpSet convolutions(view, IsConvolution);
  if (convolutions.IsEmpty()) return tensorflow::Status();
  for (int id = 0; id < view.size(); ++id) {
    if (!convolutions.Has(id) || !IsLowValid(view, id)) continue;
    const OutputPort kernel = Unscaled(*state, view.fanin(id)[1]);
    if (!IsOneByOne(ShapeOfConstant(view, state->values, state->context.fed, kernel))) continue;
    (*state->Editable()->mutable_node(id)->mutable_attr())["padding"].set_s("SAME");
    state->rewrites.push_back({"same_padding", view.node(id).name(), "VALID", "SAME"});
    *changed = true;
  }
  return tensorflow::Status();
}

}  // namespace npu_precision
