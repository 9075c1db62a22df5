// Estimates how many elements tensors have where their shapes are not known: those that a pass has
// added, and those that a loop pops from a list.
#ifndef NPU_PRECISION_GRAPH_PASSES_ANALYSIS_TENSOR_SIZES_H_
#define NPU_PRECISION_GRAPH_PASSES_ANALYSIS_TENSOR_SIZES_H_

#include <unordered_map>
#include <vector>

#include "graph_passes/analysis/handles.h"
#include "graph_passes/analysis/product_flops.h"
#include "graph_passes/graph/graph_view.h"
#include "graph_passes/graph/tensor_shapes.h"
#include "tensorflow/core/framework/tensor_shape.h"

namespace npu_precision {

class TensorSizes {
 public:
  // The arguments must outlive this object.
  TensorSizes(const GraphView& view, const TensorShapes& shapes,
              const std::vector<Handle>& handles);

  // The number of elements, as ElementsOfSample counts them, or kUnknownCost. If its shape is not
  // known, a tensor is as large as what it is reshaped to, an elementwise result as large as its
  // largest operand, joined tensors as large as all of them, parts as large as their share, a
  // product as large as its operands say, and what comes from a list as large as the largest tensor
  // that goes into one of the same handle.
  double Elements(const OutputPort& tensor);

 private:
  struct Largest {
    OutputPort tensor{-1, 0};
    double elements = kUnknownCost;
    bool is_known = false;
  };

  double Estimate(const OutputPort& tensor);
  double OfReshaped(const OutputPort& tensor);
  double OfLargestOperand(int id);
  double OfProduct(int id);
  double OfJoined(int id);
  double OfPart(int id);
  tensorflow::PartialTensorShape ShapeOf(const OutputPort& tensor);
  const Largest& LargestOfHandle(int group);

  const GraphView& view_;
  const TensorShapes& shapes_;
  const std::vector<Handle>& handles_;
  std::unordered_map<int, int> handle_of_;  // by group
  std::vector<Largest> largest_of_handle_;
  std::vector<std::vector<double>> found_;  // by node and port
  int depth_ = 0;
};

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_ANALYSIS_TENSOR_SIZES_H_
