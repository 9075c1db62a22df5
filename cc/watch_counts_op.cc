#include "cc/watch_counts_op.h"

#include <cstring>
#include <memory>

#include "cc/counted_function.h"
#include "cc/flight_store.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace npu_precision {
namespace {

using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;

// Both have state, so that TensorFlow neither drops nor merges them.
REGISTER_OP("NpuPrecisionRecords")
    .Output("records: bool")
    .Attr("graph: int")
    .SetIsStateful()
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* context) {
      context->set_output(0, context->Scalar());
      return tensorflow::Status();
    })
    .Doc("Whether a flight recorder records this step.");

REGISTER_OP("NpuPrecisionWatchCounts")
    .Input("counts: int32")
    .Attr("graph: int")
    .SetIsStateful()
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext*) { return tensorflow::Status(); })
    .Doc("Records what a compiled function has counted in its tensors.");

std::shared_ptr<WatchedGraph> GraphOf(OpKernelConstruction* context) {
  int number = 0;
  context->SetStatus(context->GetAttr("graph", &number));
  return FlightStore::Get().Find(number);
}

class RecordsKernel : public tensorflow::OpKernel {
 public:
  explicit RecordsKernel(OpKernelConstruction* context)
      : OpKernel(context), graph_(GraphOf(context)) {}

  bool IsExpensive() override { return false; }

  void Compute(OpKernelContext* context) override {
    tensorflow::Tensor* records = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, {}, &records));
    // Another recorder that opened meanwhile may have released the graph. That is not an error.
    records->scalar<bool>()() = graph_ != nullptr && graph_->Records(context->step_id());
  }

 private:
  const std::shared_ptr<WatchedGraph> graph_;
};

class WatchCountsKernel : public tensorflow::OpKernel {
 public:
  explicit WatchCountsKernel(OpKernelConstruction* context)
      : OpKernel(context), graph_(GraphOf(context)) {}

  bool IsExpensive() override { return false; }

  void Compute(OpKernelContext* context) override {
    const long long step_id = context->step_id();
    if (graph_ == nullptr || !graph_->Records(step_id)) return;
    const auto counted = context->input(0).matrix<int>();
    for (int tensor = 0; tensor < counted.dimension(0); ++tensor) {
      TensorCounts counts;
      counts.elements = counted(tensor, kElements);
      counts.zeros = counted(tensor, kZeros);
      counts.under = counted(tensor, kSmall) - counted(tensor, kZeros);
      counts.infinities = counted(tensor, kInfinities);
      counts.nans = counted(tensor, kNans);
      counts.over = counted(tensor, kOver);
      const int bits = counted(tensor, kLargestBits);
      std::memcpy(&counts.largest, &bits, sizeof(bits));
      OP_REQUIRES_OK(context, graph_->Add(step_id, tensor, counts, context->frame_iter().iter_id));
    }
  }

 private:
  const std::shared_ptr<WatchedGraph> graph_;
};

REGISTER_KERNEL_BUILDER(Name("NpuPrecisionRecords").Device(tensorflow::DEVICE_CPU), RecordsKernel);
REGISTER_KERNEL_BUILDER(Name("NpuPrecisionWatchCounts").Device(tensorflow::DEVICE_CPU),
                        WatchCountsKernel);

}  // namespace
}  // namespace npu_precision
