// The ops that add tensors of a low type up in float32: several of them, or the rows of one.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "cc/sum_blocks.h"
#include "graph_passes/graph/private_ops.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/lib/core/errors.h"
#include "tensorflow/core/lib/core/threadpool.h"
#include "tensorflow/core/util/bcast.h"

namespace npu_precision {
namespace {

using tensorflow::OpKernelContext;
using tensorflow::Status;
using tensorflow::Tensor;
using tensorflow::TensorShape;
using tensorflow::errors::InvalidArgument;
using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::ShapeHandle;

REGISTER_OP("NpuPrecisionSum")
    .Input("terms: T")
    .Output("sum: float")
    .Attr("T: list({float, half, bfloat16}) >= 1")
    .Attr("broadcasts: bool")
    .SetShapeFn([](InferenceContext* context) {
      bool broadcasts = false;
      Status status = context->GetAttr("broadcasts", &broadcasts);
      ShapeHandle sum = context->input(0);
      for (int k = 1; status.ok() && k < context->num_inputs(); ++k) {
        status = broadcasts
                     ? tensorflow::shape_inference::BroadcastBinaryOpOutputShapeFnHelper(
                           context, sum, context->input(k), /*incompatible_shape_error=*/true, &sum)
                     : context->Merge(sum, context->input(k), &sum);
      }
      context->set_output(0, sum);
      return status;
    })
    .Doc("Adds terms, in their order, in float32. Shapes broadcast, or must be the same.");

REGISTER_OP("NpuPrecisionSumRows")
    .Input("x: T")
    .Output("sum: float")
    .Attr("T: {half, bfloat16}")
    .Attr("kept: int >= 0")
    .SetShapeFn([](InferenceContext* context) {
      tensorflow::int64 kept = 0;
      const Status status = context->GetAttr("kept", &kept);
      if (!status.ok()) return status;
      if (!context->RankKnown(context->input(0))) {
        context->set_output(0, context->UnknownShapeOfRank(kept));
        return Status();
      }
      ShapeHandle sum;
      ShapeHandle x;
      TF_RETURN_IF_ERROR(context->WithRankAtLeast(context->input(0), kept + 1, &x));
      const Status is_part = context->Subshape(x, context->Rank(x) - kept, &sum);
      context->set_output(0, sum);
      return is_part;
    })
    .Doc("Adds up over all dimensions but the last `kept` ones, in float32.");

// Threads take so many elements of a sum, or a multiple.
constexpr int64_t kUnit = 512;

tensorflow::thread::ThreadPool* Workers(OpKernelContext* context) {
  return context->device()->tensorflow_cpu_worker_threads()->workers;
}

Status Incompatible(const TensorShape& a, const TensorShape& b) {
  return InvalidArgument("Incompatible shapes: ", a.DebugString(), " vs. ", b.DebugString());
}

Status BroadcastShape(const TensorShape& shape, const Tensor& term, TensorShape* both) {
  if (shape.IsSameSize(term.shape())) return Status();
  const tensorflow::BCast broadcast(tensorflow::BCast::FromShape(shape),
                                    tensorflow::BCast::FromShape(term.shape()));
  if (!broadcast.IsValid()) return Incompatible(shape, term.shape());
  *both = tensorflow::BCast::ToShape(broadcast.output_shape());
  return Status();
}

// Whether the term just repeats itself: but for first dimensions of size 1, its shape is that of
// the last dimensions of the sum.
bool Repeats(const TensorShape& term, const TensorShape& sum) {
  const int skipped = sum.dims() - term.dims();
  int dim = 0;
  while (dim < term.dims() && term.dim_size(dim) == 1) ++dim;
  for (; dim < term.dims(); ++dim) {
    if (term.dim_size(dim) != sum.dim_size(skipped + dim)) return false;
  }
  return true;
}

// Terms are repeated up to so many elements: shorter ones would be added in steps that are too
// short.
constexpr int64_t kShortestPeriod = 512;

bool IsTooShort(const TensorShape& term, const TensorShape& sum) {
  return term.num_elements() < std::min<int64_t>(kShortestPeriod, sum.num_elements());
}

char* DataOf(Tensor* tensor) { return const_cast<char*>(tensor->tensor_data().data()); }

Status Repeat(OpKernelContext* context, const Tensor& term, Tensor* repeated) {
  const int64_t size = term.NumElements(), times = (kShortestPeriod + size - 1) / size;
  const Status status = context->allocate_temp(term.dtype(), TensorShape({times * size}), repeated);
  if (!status.ok()) return status;
  const auto bytes = term.tensor_data();
  for (int64_t k = 0; k < times; ++k) {
    std::copy_n(bytes.data(), bytes.size(), DataOf(repeated) + k * bytes.size());
  }
  return Status();
}

// The term with the shape of the sum, which has elements and a dimension.
Status Expand(OpKernelContext* context, const Tensor& term, const TensorShape& shape,
              Tensor* expanded) {
  const Status status = context->allocate_temp(term.dtype(), shape, expanded);
  if (!status.ok()) return status;
  const int64_t bytes = tensorflow::DataTypeSize(term.dtype());
  const char* const from = term.tensor_data().data();
  char* to = DataOf(expanded);
  const int last = shape.dims() - 1, skipped = shape.dims() - term.dims();
  std::vector<int64_t> index(shape.dims(), 0), stride(shape.dims(), 0);
  int64_t step = bytes;
  for (int dim = term.dims() - 1; dim >= 0; --dim) {
    if (term.dim_size(dim) > 1) stride[skipped + dim] = step;
    step *= term.dim_size(dim);
  }
  const int64_t columns = shape.dim_size(last), rows = shape.num_elements() / columns;
  int64_t at = 0;
  for (int64_t row = 0; row < rows; ++row) {
    if (stride[last] != 0) {
      to = std::copy_n(from + at, columns * bytes, to);
    } else {
      for (int64_t k = 0; k < columns; ++k) to = std::copy_n(from + at, bytes, to);
    }
    for (int dim = last - 1; dim >= 0; --dim) {
      at += stride[dim];
      if (++index[dim] < shape.dim_size(dim)) break;
      at -= stride[dim] * index[dim];
      index[dim] = 0;
    }
  }
  return Status();
}

class SumKernel : public tensorflow::OpKernel {
 public:
  explicit SumKernel(tensorflow::OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("broadcasts", &broadcasts_));
  }

  void Compute(OpKernelContext* context) override {
    TensorShape shape = context->input(0).shape();
    std::vector<int> inputs;
    for (int k = 0; k < context->num_inputs(); ++k) {
      const TensorShape& other = context->input(k).shape();
      OP_REQUIRES(context, broadcasts_ || shape.IsSameSize(other), Incompatible(shape, other));
      OP_REQUIRES_OK(context, BroadcastShape(shape, context->input(k), &shape));
      inputs.push_back(k);
    }
    Tensor* sum = nullptr;
    if (shape.num_elements() == 0) {
      OP_REQUIRES_OK(context, context->allocate_output(0, shape, &sum));
      return;
    }
    std::vector<Tensor> expanded(inputs.size());  // keeps the data of terms
    std::vector<SumTerm> terms;
    for (int k : inputs) {
      const Tensor* term = &context->input(k);
      const bool repeats = Repeats(term->shape(), shape);
      if (!repeats || IsTooShort(term->shape(), shape)) {
        OP_REQUIRES_OK(context, repeats ? Repeat(context, *term, &expanded[k])
                                        : Expand(context, *term, shape, &expanded[k]));
        term = &expanded[k];
      }
      terms.push_back({term->tensor_data().data(), term->dtype(), term->NumElements()});
    }
    OP_REQUIRES_OK(context, context->forward_input_or_allocate_output(inputs, 0, shape, &sum));
    float* const to = sum->flat<float>().data();
    const int64_t size = shape.num_elements();
    const int64_t cost = kUnit / kElementsInCycle * static_cast<int64_t>(terms.size());
    Workers(context)->ParallelFor((size + kUnit - 1) / kUnit, cost,
                                  [&](int64_t begin, int64_t end) {
                                    AddTerms(terms, begin * kUnit, std::min(end * kUnit, size), to);
                                  });
  }

 private:
  bool broadcasts_ = false;
};

// Rows are added up by tasks of so many rows and columns, whose partial sums are added in their
// order: so the result depends neither on the number of threads nor on how they take turns.
constexpr int64_t kRows = 256, kColumns = 256;

class SumRowsKernel : public tensorflow::OpKernel {
 public:
  explicit SumRowsKernel(tensorflow::OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("kept", &kept_));
  }

  void Compute(OpKernelContext* context) override {
    const Tensor& x = context->input(0);
    OP_REQUIRES(context, x.dims() > kept_,
                InvalidArgument(name(), ": expected more than ", kept_, " dimensions, got ",
                                x.shape().DebugString()));
    TensorShape shape;
    for (int dim = x.dims() - kept_; dim < x.dims(); ++dim) shape.AddDim(x.dim_size(dim));
    Tensor* sum = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, shape, &sum));
    float* const to = sum->flat<float>().data();
    const int64_t columns = shape.num_elements();
    std::fill_n(to, columns, 0.0f);
    if (x.NumElements() == 0) return;
    // Narrow rows are joined, so that vectors are full.
    const int64_t rows = x.NumElements() / columns;
    const int64_t joined = std::min(std::max<int64_t>(kColumns / columns, 1), rows);
    const auto* const data = reinterpret_cast<const uint16_t*>(x.tensor_data().data());
    const LowRows wide = {data, x.dtype(), joined * columns};
    AddWide(context, wide, rows / joined, columns, to);
    const LowRows rest = {data, x.dtype(), columns};
    AddRows(rest, rows / joined * joined, rows, 0, columns, to);
  }

 private:
  static void AddWide(OpKernelContext* context, const LowRows& rows, int64_t count, int64_t columns,
                      float* to) {
    const int64_t parts = (count + kRows - 1) / kRows;
    const int64_t chunks = (rows.columns + kColumns - 1) / kColumns;
    std::vector<float> sums(parts * rows.columns, 0.0f);
    const int64_t elements = std::min(count, kRows) * std::min(rows.columns, kColumns);
    const int64_t cost = elements / kElementsInCycle + 1;
    Workers(context)->ParallelFor(parts * chunks, cost, [&](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task) {
        const int64_t row = task / chunks * kRows, column = task % chunks * kColumns;
        AddRows(rows, row, std::min(count, row + kRows), column,
                std::min(kColumns, rows.columns - column),
                sums.data() + task / chunks * rows.columns + column);
      }
    });
    for (size_t i = 0; i < sums.size(); i += columns) {
      for (int64_t column = 0; column < columns; ++column) to[column] += sums[i + column];
    }
  }

  int kept_ = 0;
};

REGISTER_KERNEL_BUILDER(Name("NpuPrecisionSum").Device(tensorflow::DEVICE_CPU), SumKernel);
REGISTER_KERNEL_BUILDER(Name("NpuPrecisionSumRows").Device(tensorflow::DEVICE_CPU), SumRowsKernel);

}  // namespace
}  // namespace npu_precision
