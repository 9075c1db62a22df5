#include "graph_passes/analysis/product_flops.h"

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "graph_passes/graph/node_attributes.h"
#include "graph_passes/graph/op_traits.h"
#include "tensorflow/core/framework/tensor_shape.h"

namespace npu_precision {
namespace {

using tensorflow::NodeDef;
using tensorflow::PartialTensorShape;

// The size of the dimension that is summed over, from an operand of a matrix product: the first, or
// the second. `batch` is the size of a first dimension that is not known.
double Depth(const NodeDef& node, int index, const PartialTensorShape& operand, double batch) {
  const int dims = operand.dims();
  if (dims < 2) return kUnknownCost;
  const int dim = IsTransposed(node, index) == (index == 0) ? dims - 2 : dims - 1;
  const int64_t size = operand.dim_size(dim);
  return size < 0 && dim == 0 ? batch : size;
}

// The number of products that each element of a convolution's output adds up.
double KernelSize(const std::string& op, const PartialTensorShape& filter) {
  const int counted = absl::StartsWith(op, "Depthwise") ? filter.dims() - 2 : filter.dims() - 1;
  if (counted < 1 || !filter.IsFullyDefined()) return kUnknownCost;
  double size = 1;
  for (int dim = 0; dim < counted; ++dim) size *= filter.dim_size(dim);
  return size;
}

PartialTensorShape ShapeOf(const GraphView& view, const TensorShapes& shapes,
                           const OutputPort& tensor) {
  return shapes(view.node(tensor.node).name(), tensor.port);
}

double Flops(double elements, double depth) {
  return elements < 0 || depth < 0 ? kUnknownCost : 2 * elements * depth;
}

double Terms(const GraphView& view, const TensorShapes& shapes, int id, double batch) {
  const NodeDef& node = view.node(id);
  if (MultipliesMatrices(node.op())) {
    const double depth = Depth(node, 0, ShapeOf(view, shapes, view.fanin(id)[0]), batch);
    // A pass may have added what yields the first operand; its shape is then not known.
    return depth >= 0 ? depth : Depth(node, 1, ShapeOf(view, shapes, view.fanin(id)[1]), batch);
  }
  if (!absl::StrContains(node.op(), "Conv")) return kUnknownCost;
  const bool makes_filter = absl::StrContains(node.op(), "BackpropFilter");
  const OutputPort filter = makes_filter ? OutputPort{id, 0} : view.fanin(id)[1];
  return KernelSize(node.op(), ShapeOf(view, shapes, filter));
}

}  // namespace

double ElementsOfSample(const PartialTensorShape& shape) {
  if (shape.dims() < 0) return kUnknownCost;
  double elements = 1;
  for (int dim = 0; dim < shape.dims(); ++dim) {
    const int64_t size = shape.dim_size(dim);
    if (size < 0 && dim > 0) return kUnknownCost;
    if (size >= 0) elements *= size;
  }
  return elements;
}

double ProductTerms(const GraphView& view, const TensorShapes& shapes, int id) {
  return Terms(view, shapes, id, kUnknownCost);
}

double ProductFlops(const GraphView& view, const TensorShapes& shapes, int id) {
  // A gradient computes as much as the convolution whose output gradient it reads.
  const bool is_gradient = view.num_fanin(id) == 3;
  const OutputPort result = is_gradient ? view.fanin(id)[2] : OutputPort{id, 0};
  return Flops(ElementsOfSample(ShapeOf(view, shapes, result)), Terms(view, shapes, id, 1));
}

}  // namespace npu_precision
