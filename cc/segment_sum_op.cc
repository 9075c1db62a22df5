// The op that adds the rows of a tensor of a low type up in float32, by segment.
#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "cc/sum_blocks.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/lib/core/errors.h"
#include "tensorflow/core/lib/core/threadpool.h"
#include "tensorflow/core/util/overflow.h"

namespace npu_precision {
namespace {

using tensorflow::OpKernelContext;
using tensorflow::Status;
using tensorflow::Tensor;
using tensorflow::TensorShape;
using tensorflow::errors::InvalidArgument;
using tensorflow::shape_inference::DimensionHandle;
using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::ShapeHandle;

// TensorFlow's own function has another name in each version.
Status SegmentsShape(InferenceContext* context) {
  ShapeHandle data = context->input(0), ids = context->input(1), row, count;
  TF_RETURN_IF_ERROR(context->WithRank(context->input(2), 0, &count));
  context->set_output(0, context->UnknownShape());
  if (!context->RankKnown(ids)) return Status();
  TF_RETURN_IF_ERROR(context->MergePrefix(data, ids, &data, &ids));
  if (!context->RankKnown(data)) return Status();
  DimensionHandle segments;
  TF_RETURN_IF_ERROR(context->MakeDimForScalarInput(2, &segments));
  TF_RETURN_IF_ERROR(context->Subshape(data, context->Rank(ids), &row));
  ShapeHandle sums;
  TF_RETURN_IF_ERROR(context->Concatenate(context->Vector(segments), row, &sums));
  context->set_output(0, sums);
  return Status();
}

REGISTER_OP("NpuPrecisionSumSegments")
    .Input("data: T")
    .Input("segment_ids: Tindices")
    .Input("num_segments: Tnumsegments")
    .Output("sum: float")
    .Attr("T: {half, bfloat16}")
    .Attr("Tindices: {int32, int64}")
    .Attr("Tnumsegments: {int32, int64} = DT_INT32")
    .SetShapeFn(SegmentsShape)
    .Doc("UnsortedSegmentSum of a low type, in float32.");

int64_t IntegerAt(const Tensor& tensor, int64_t at) {
  return tensor.dtype() == tensorflow::DT_INT32 ? tensor.flat<int32_t>()(at)
                                                : tensor.flat<tensorflow::int64>()(at);
}

// The rows of each segment, in their order.
struct Segments {
  std::vector<int64_t> ends;  // by segment, in `rows`
  std::vector<int64_t> rows;
};

class SumSegmentsKernel : public tensorflow::OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* context) override {
    const Tensor& data = context->input(0);
    const Tensor& ids = context->input(1);
    const Tensor& count = context->input(2);
    OP_REQUIRES(context, tensorflow::TensorShapeUtils::StartsWith(data.shape(), ids.shape()),
                InvalidArgument(name(), ": the shape ", data.shape().DebugString(),
                                " of data does not start with that of segment_ids, ",
                                ids.shape().DebugString()));
    OP_REQUIRES(context, count.dims() == 0,
                InvalidArgument(name(), ": num_segments must be a scalar, and has the shape ",
                                count.shape().DebugString()));
    const int64_t segments = IntegerAt(count, 0);
    OP_REQUIRES(context, segments >= 0,
                InvalidArgument(name(), ": num_segments must not be negative, and is ", segments));
    OP_REQUIRES_OK(context, CheckIds(ids, segments));
    TensorShape shape;
    for (int dim = ids.dims(); dim < data.dims(); ++dim) shape.AddDim(data.dim_size(dim));
    const int64_t columns = shape.num_elements();
    OP_REQUIRES(context, tensorflow::MultiplyWithoutOverflow(segments, columns) >= 0,
                InvalidArgument(name(), ": ", segments, " segments of ", columns,
                                " elements are too many"));
    shape.InsertDim(0, segments);
    Tensor* sum = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, shape, &sum));
    if (shape.num_elements() == 0) return;
    const Segments sorted = Sort(ids, segments);
    const LowRows rows = {reinterpret_cast<const uint16_t*>(data.tensor_data().data()),
                          data.dtype(), columns};
    float* const to = sum->flat<float>().data();
    const int64_t elements = data.NumElements() + shape.num_elements();
    context->device()->tensorflow_cpu_worker_threads()->workers->ParallelFor(
        segments, elements / segments / kElementsInCycle + 1, [&](int64_t begin, int64_t end) {
          std::fill(to + begin * columns, to + end * columns, 0.0f);
          int64_t k = begin == 0 ? 0 : sorted.ends[begin - 1];
          for (int64_t segment = begin; segment < end; ++segment) {
            for (; k < sorted.ends[segment]; ++k) {
              const int64_t row = sorted.rows[k];
              AddRows(rows, row, row + 1, 0, columns, to + segment * columns);
            }
          }
        });
  }

 private:
  Status CheckIds(const Tensor& ids, int64_t segments) const {
    for (int64_t row = 0; row < ids.NumElements(); ++row) {
      const int64_t id = IntegerAt(ids, row);
      if (id < segments) continue;
      return InvalidArgument(name(), ": segment_ids[", row, "] = ", id, " is out of range [0, ",
                             segments, ")");
    }
    return Status();
  }

  // Rows with a negative number belong to no segment, as for TensorFlow's kernel.
  static Segments Sort(const Tensor& ids, int64_t segments) {
    std::vector<int64_t> next(segments + 1, 0);
    for (int64_t row = 0; row < ids.NumElements(); ++row) {
      const int64_t id = IntegerAt(ids, row);
      if (id >= 0) ++next[id + 1];
    }
    for (int64_t segment = 0; segment < segments; ++segment) next[segment + 1] += next[segment];
    Segments sorted;
    sorted.rows.resize(next[segments]);
    for (int64_t row = 0; row < ids.NumElements(); ++row) {
      const int64_t id = IntegerAt(ids, row);
      if (id >= 0) sorted.rows[next[id]++] = row;
    }
    next.pop_back();
    sorted.ends = std::move(next);
    return sorted;
  }
};

REGISTER_KERNEL_BUILDER(Name("NpuPrecisionSumSegments").Device(tensorflow::DEVICE_CPU),
                        SumSegmentsKernel);

}  // namespace
}  // namespace npu_precision
