#include "graph_passes/analysis/tensor_sizes.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include "graph_passes/graph/node_attributes.h"
#include "graph_passes/graph/op_traits.h"
#include "tensorflow/core/framework/tensor_shape.h"

namespace npu_precision {
namespace {

using tensorflow::PartialTensorShape;

constexpr double kUnvisited = -2;
// A bound on the nodes between a tensor and those of known shape: each takes space on the stack.
constexpr int kMostHops = 200;

bool IsFloat(tensorflow::DataType dtype) {
  return dtype == tensorflow::DT_FLOAT || dtype == tensorflow::DT_BFLOAT16 ||
         dtype == tensorflow::DT_HALF;
}

bool IsAsLargeAsOperand(const std::string& op) {
  return IsElementwise(op) || MovesValues(op) || IsControlFlow(op) || op == "Cast" ||
         op == "Softmax" || op == "FusedBatchNormV3" || op == "FusedBatchNormGradV3";
}

bool JoinsTensors(const std::string& op) {
  return op == "ConcatV2" || op == "Concat" || op == "Pack";
}

bool DividesTensor(const std::string& op) { return op == "Split" || op == "Unpack"; }

}  // namespace

TensorSizes::TensorSizes(const GraphView& view, const TensorShapes& shapes,
                         const std::vector<Handle>& handles)
    : view_(view),
      shapes_(shapes),
      handles_(handles),
      largest_of_handle_(handles.size()),
      found_(view.size()) {
  for (size_t i = 0; i < handles.size(); ++i) {
    for (int group : handles[i].groups) handle_of_[group] = static_cast<int>(i);
  }
}

double TensorSizes::Elements(const OutputPort& tensor) {
  std::vector<double>& of_node = found_[tensor.node];
  if (of_node.empty()) of_node.assign(std::max(view_.num_outputs(tensor.node), 1), kUnvisited);
  if (tensor.port >= static_cast<int>(of_node.size())) return kUnknownCost;
  if (of_node[tensor.port] != kUnvisited) return of_node[tensor.port];
  double elements = ElementsOfSample(shapes_(view_.node(tensor.node).name(), tensor.port));
  if (elements == kUnknownCost && depth_ < kMostHops) {
    of_node[tensor.port] = kUnknownCost;  // in a cycle, the other inputs say
    ++depth_;
    elements = Estimate(tensor);
    --depth_;
  }
  return of_node[tensor.port] = elements;
}

double TensorSizes::Estimate(const OutputPort& tensor) {
  const int id = tensor.node;
  const int group = view_.GroupOf(tensor);
  if (group != kNoGroup && handle_of_.count(group) != 0) return LargestOfHandle(group).elements;
  const double of_reshaped = OfReshaped(tensor);
  if (of_reshaped != kUnknownCost) return of_reshaped;
  const std::string& op = view_.node(id).op();
  if (MultipliesMatrices(op)) return OfProduct(id);
  if (JoinsTensors(op)) return OfJoined(id);
  if (DividesTensor(op)) return OfPart(id);
  const bool has_its_size = IsAsLargeAsOperand(op) && (tensor.port == 0 || IsControlFlow(op));
  return has_its_size ? OfLargestOperand(id) : kUnknownCost;
}

// What a pass adds often ends in a Reshape, or, before a loop, in an Enter that has the name of the
// node that it replaces.
double TensorSizes::OfReshaped(const OutputPort& tensor) {
  for (const InputPort& use : view_.fanout(tensor)) {
    const std::string& op = view_.node(use.node).op();
    if (use.index != 0 || (op != "Reshape" && op != "Enter")) continue;
    const double elements = ElementsOfSample(shapes_(view_.node(use.node).name(), 0));
    if (elements != kUnknownCost) return elements;
  }
  return kUnknownCost;
}

double TensorSizes::OfLargestOperand(int id) {
  double largest = kUnknownCost;
  for (const OutputPort& input : view_.fanin(id)) {
    if (IsFloat(view_.dtype(input))) largest = std::max(largest, Elements(input));
  }
  return largest;
}

double TensorSizes::OfJoined(int id) {
  double sum = 0;
  for (const OutputPort& input : view_.fanin(id)) {
    if (!IsFloat(view_.dtype(input))) continue;
    const double elements = Elements(input);
    if (elements == kUnknownCost) return kUnknownCost;
    sum += elements;
  }
  return sum;
}

double TensorSizes::OfPart(int id) {
  const double whole = OfLargestOperand(id);
  return whole == kUnknownCost ? kUnknownCost : whole / std::max(view_.num_outputs(id), 1);
}

// [rows, depth] by [depth, columns], where the shape of one operand is known.
double TensorSizes::OfProduct(int id) {
  if (view_.node(id).op() != "MatMul" || view_.num_fanin(id) < 2) return kUnknownCost;
  for (int k : {1, 0}) {
    const PartialTensorShape shape = ShapeOf(view_.fanin(id)[k]);
    if (shape.dims() != 2 || !shape.IsFullyDefined()) continue;
    const int summed = IsTransposed(view_.node(id), k) == (k == 0) ? 0 : 1;
    const double depth = shape.dim_size(summed), kept = shape.dim_size(1 - summed);
    const double other = Elements(view_.fanin(id)[1 - k]);
    if (other >= 0 && depth > 0) return other / depth * kept;
  }
  return kUnknownCost;
}

PartialTensorShape TensorSizes::ShapeOf(const OutputPort& tensor) {
  const PartialTensorShape shape = shapes_(view_.node(tensor.node).name(), tensor.port);
  const int group = view_.GroupOf(tensor);
  if (shape.IsFullyDefined() || group == kNoGroup || handle_of_.count(group) == 0) return shape;
  const OutputPort& largest = LargestOfHandle(group).tensor;
  if (largest.node < 0) return shape;
  return shapes_(view_.node(largest.node).name(), largest.port);
}

const TensorSizes::Largest& TensorSizes::LargestOfHandle(int group) {
  const int handle = handle_of_[group];
  if (largest_of_handle_[handle].is_known) return largest_of_handle_[handle];
  largest_of_handle_[handle].is_known = true;  // in a cycle, the other tensors say
  Largest largest = largest_of_handle_[handle];
  for (int other : handles_[handle].groups) {
    view_.VisitProducers(other, [&](const OutputPort& input) {
      if (!IsFloat(view_.dtype(input))) return;
      const double elements = Elements(input);
      if (elements > largest.elements) {
        largest.elements = elements;
        largest.tensor = input;
      }
    });
  }
  return largest_of_handle_[handle] = largest;
}

}  // namespace npu_precision
