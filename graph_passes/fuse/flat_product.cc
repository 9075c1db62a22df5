#include "graph_passes/fuse/flat_product.h"

#include <algorithm>
#include <string>

#include "absl/strings/strip.h"
#include "graph_passes/fuse/einsum_equation.h"
#include "graph_passes/graph/node_attributes.h"
#include "tensorflow/core/framework/attr_value.pb.h"

namespace npu_precision {
namespace {

using tensorflow::NodeDef;
using tensorflow::PartialTensorShape;

bool IsOfFloat32(const GraphView& view, int id) {
  const auto has_float32 = [](const TypeGroup& group) {
    return group.dtype == tensorflow::DT_FLOAT;
  };
  const auto groups = view.groups(id);
  return !groups.empty() && std::all_of(groups.begin(), groups.end(), has_float32);
}

// Returns false if one of these sizes is not known, or is 0: a Reshape to -1 would then be
// ambiguous.
bool Sizes(const PartialTensorShape& shape, int begin, int end, std::vector<int64_t>* sizes) {
  for (int dim = begin; dim < end; ++dim) {
    if (shape.dim_size(dim) <= 0) return false;
    sizes->push_back(shape.dim_size(dim));
  }
  return true;
}

int64_t ElementsOf(const std::vector<int64_t>& sizes) {
  int64_t elements = 1;
  for (int64_t size : sizes) elements *= size;
  return elements;
}

// The labels of the dimensions: rows, sum and columns.
struct Labels {
  int depth_dims = 0, width_dims = 0;
  bool is_transposed = false;
};

// Whether x is ROWS SUM, the weights are SUM COLUMNS or COLUMNS SUM, and the result is ROWS
// COLUMNS, where ROWS may begin with an ellipsis.
bool ReadLabels(absl::string_view x, absl::string_view weights, absl::string_view result,
                Labels* labels) {
  const bool has_ellipsis = absl::ConsumePrefix(&x, "...");
  if (has_ellipsis != absl::ConsumePrefix(&result, "...")) return false;
  size_t rows = 0;
  while (rows < x.size() && rows < result.size() && x[rows] == result[rows]) ++rows;
  const absl::string_view summed = x.substr(rows), columns = result.substr(rows);
  // Another ellipsis has three dots, which do not differ.
  const std::string all(std::string(x) + std::string(columns));
  if (summed.empty() || columns.empty() || (rows == 0 && !has_ellipsis) || !AllDiffer(all)) {
    return false;
  }
  const std::string sum_first = std::string(summed) + std::string(columns);
  labels->is_transposed = weights != sum_first;
  labels->depth_dims = static_cast<int>(summed.size());
  labels->width_dims = static_cast<int>(columns.size());
  return !labels->is_transposed || weights == std::string(columns) + std::string(summed);
}

// Fills everything except x, weights and their sizes; `operand` is the index of x.
bool ReadEquation(const NodeDef& einsum, int* operand, Labels* labels) {
  EinsumEquation equation;
  if (!ReadEinsumEquation(einsum, &equation)) return false;
  for (*operand = 0; *operand < 2; ++*operand) {
    if (ReadLabels(equation.operands[*operand], equation.operands[1 - *operand], equation.result,
                   labels)) {
      return true;
    }
  }
  return false;
}

// Fills the sizes, on which both operands must agree.
bool ReadSizes(const FusionSite& site, const Labels& labels, FlatProduct* product) {
  const PartialTensorShape weights = site.Shape(product->weights);
  if (weights.dims() != labels.depth_dims + labels.width_dims) return false;
  product->x_shape = site.Shape(product->x);
  product->row_dims = product->x_shape.dims() - labels.depth_dims;
  if (product->row_dims < 1) return false;
  std::vector<int64_t> depths;
  const int depth_begin = labels.is_transposed ? labels.width_dims : 0;
  const int width_begin = labels.is_transposed ? 0 : labels.depth_dims;
  if (!Sizes(weights, depth_begin, depth_begin + labels.depth_dims, &depths) ||
      !Sizes(weights, width_begin, width_begin + labels.width_dims, &product->columns)) {
    return false;
  }
  product->has_own_depth = true;
  for (int dim = 0; dim < labels.depth_dims; ++dim) {
    const int64_t size = product->x_shape.dim_size(product->row_dims + dim);
    if (size >= 0 && size != depths[dim]) return false;
    if (size < 0) product->has_own_depth = false;
  }
  for (int dim = 0; dim < product->row_dims; ++dim) {
    if (product->x_shape.dim_size(dim) == 0) return false;
  }
  product->is_transposed = labels.is_transposed;
  product->has_flat_weights = weights.dims() == 2;
  product->depth = ElementsOf(depths);
  product->width = ElementsOf(product->columns);
  return true;
}

}  // namespace

bool IsBatchMatMul(const std::string& op) {
  return op == "BatchMatMul" || op == "BatchMatMulV2" || op == "BatchMatMulV3";
}

bool ReadFlatProduct(const GraphView& view, const FusionSite& site, int id, FlatProduct* product) {
  const NodeDef& node = view.node(id);
  if (view.num_fanin(id) != 2 || !IsOfFloat32(view, id)) return false;
  Labels labels;
  int operand = 0;
  if (node.op() == "Einsum") {
    if (!ReadEquation(node, &operand, &labels)) return false;
  } else {
    if (IsTransposed(node, 0)) return false;
    labels.depth_dims = labels.width_dims = 1;
    labels.is_transposed = IsTransposed(node, 1);
  }
  product->x = view.fanin(id)[operand];
  product->weights = view.fanin(id)[1 - operand];
  return ReadSizes(site, labels, product);
}

}  // namespace npu_precision
