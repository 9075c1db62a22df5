#include "cc/error_op.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tensorflow/core/framework/attr_value.pb.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/lib/core/errors.h"
#include "tensorflow/core/util/device_name_utils.h"

namespace npu_precision {

const char kErrorOp[] = "NpuPrecisionError";

namespace {

using tensorflow::NodeDef;

REGISTER_OP("NpuPrecisionError")
    .Attr("message: string")
    .SetIsStateful()
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext*) { return tensorflow::Status(); })
    .Doc("Fails with InvalidArgument and `message`: what the user of npu_precision must fix.");

class ErrorKernel : public tensorflow::OpKernel {
 public:
  explicit ErrorKernel(tensorflow::OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("message", &message_));
  }

  void Compute(tensorflow::OpKernelContext* context) override {
    context->CtxFailure(tensorflow::errors::InvalidArgument("npu_precision: ", message_));
  }

 private:
  std::string message_;
};

REGISTER_KERNEL_BUILDER(Name("NpuPrecisionError").Device(tensorflow::DEVICE_CPU), ErrorKernel);

bool IsInput(const std::string& op) {
  return op == "_Arg" || op == "_DeviceArg" || op == "Placeholder" || op == "PlaceholderV2";
}

NodeDef* AddNode(const std::string& name, const std::string& op, const std::string& device,
                 tensorflow::GraphDef* graph) {
  NodeDef* node = graph->add_node();
  node->set_name(name);
  node->set_op(op);
  node->set_device(device);
  return node;
}

// Copies the type attribute T. A damaged node may have none; TensorFlow reports that when it runs.
void CopyType(const NodeDef& from, NodeDef* to) {
  const auto found = from.attr().find("T");
  if (found != from.attr().end()) (*to->mutable_attr())["T"] = found->second;
}

// Function bodies do not allow a control input of a _Retval, so an Identity before it gets the
// control input.
// After: ret/npu_wait = Identity(value, ^error), ret = _Retval(ret/npu_wait).
void FailBeforeReturn(int index, const std::string& control_input, tensorflow::GraphDef* graph) {
  const std::string name = absl::StrCat(graph->node(index).name(), "/npu_wait");
  NodeDef* before = AddNode(name, "Identity", graph->node(index).device(), graph);
  CopyType(graph->node(index), before);
  before->add_input(graph->node(index).input(0));
  before->add_input(control_input);
  graph->mutable_node(index)->set_input(0, name);
}

// A control dependency cannot cross into a loop, so an Identity behind the loop's Exit gets it.
// Before: exit = Exit. After: exit/npu_exit = Exit, exit = Identity(exit/npu_exit, ^error).
void FailOutsideLoop(int index, const std::string& control_input, tensorflow::GraphDef* graph) {
  const std::string name = graph->node(index).name();
  const std::string inner = absl::StrCat(name, "/npu_exit");
  NodeDef* outside = AddNode(name, "Identity", graph->node(index).device(), graph);
  CopyType(graph->node(index), outside);
  outside->add_input(inner);
  outside->add_input(control_input);
  graph->mutable_node(index)->set_name(inner);
}

}  // namespace

std::string CpuBeside(const std::string& device) {
  std::string task, rest;
  if (device.empty() || !tensorflow::DeviceNameUtils::SplitDeviceName(device, &task, &rest)) {
    return device;
  }
  return absl::StrCat(task, "/device:CPU:0");
}

void FailWhenRun(const std::string& message, const std::unordered_set<std::string>& preserved,
                 tensorflow::GraphDef* graph) {
  constexpr char kName[] = "npu_precision_error";
  for (const NodeDef& node : graph->node()) {
    if (node.op() == kErrorOp) return;  // the result of an offline rewrite, rewritten again
  }
  std::string device;
  const int size = graph->node_size();
  for (int i = 0; i < size && device.empty(); ++i) {
    if (preserved.count(graph->node(i).name()) != 0) device = graph->node(i).device();
  }
  const std::string control_input = absl::StrCat("^", kName);
  NodeDef* error = AddNode(kName, kErrorOp, CpuBeside(device), graph);
  (*error->mutable_attr())["message"].set_s(message);
  for (int i = 0; i < size; ++i) {
    const NodeDef& node = graph->node(i);
    if (preserved.count(node.name()) == 0 || IsInput(node.op())) continue;
    const bool returns = node.op() == "_Retval" || node.op() == "_DeviceRetval";
    if (returns && node.input_size() > 0) {
      FailBeforeReturn(i, control_input, graph);
    } else if (node.op() == "Exit") {
      FailOutsideLoop(i, control_input, graph);
    } else {
      graph->mutable_node(i)->add_input(control_input);
    }
  }
}

}  // namespace npu_precision
