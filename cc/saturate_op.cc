#include "cc/saturate_op.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <mutex>

#include "absl/strings/str_cat.h"
#include "cc/error_op.h"
#include "graph_passes/graph/private_ops.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/lib/core/threadpool.h"

namespace npu_precision {
namespace {

using tensorflow::Status;
using tensorflow::shape_inference::InferenceContext;

// Both have state, so that TensorFlow neither folds nor merges them.
REGISTER_OP("NpuPrecisionSaturate")
    .Input("x: float")
    .Output("y: half")
    .Attr("reports: bool")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* context) {
      context->set_output(0, context->input(0));
      return Status();
    })
    .Doc("Rounds to float16. What does not fit becomes 65504 of its sign; NaN stays.");

REGISTER_OP("NpuPrecisionNoOverflow")
    .Output("none: bool")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* context) {
      context->set_output(0, context->Scalar());
      return Status();
    })
    .Doc("Whether no value saturated since this was last asked.");

constexpr float kLargest = 65504.0f;
// Halfway to the next number that float16 would have: from here on values round to infinity.
constexpr float kRoundsToInfinity = 65520.0f;
// About a nanosecond per value, in cycles.
constexpr int kCost = 4;

// The overflows in this process, which stands for one device, as on the 910.
struct Seen {
  std::atomic<bool> overflow{false};
  std::mutex mutex;
  std::map<std::string, long long> saturated;  // by node name
};

Seen& TheSeen() {
  static auto* seen = new Seen();
  return *seen;
}

class SaturateKernel : public tensorflow::OpKernel {
 public:
  explicit SaturateKernel(tensorflow::OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("reports", &reports_));
  }

  void Compute(tensorflow::OpKernelContext* context) override {
    const tensorflow::Tensor& input = context->input(0);
    tensorflow::Tensor* output = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, input.shape(), &output));
    const float* x = input.flat<float>().data();
    Eigen::half* y = output->flat<Eigen::half>().data();
    std::atomic<long long> saturated{0};
    const auto round = [x, y, &saturated](long long begin, long long end) {
      long long beyond = 0;
      for (long long i = begin; i < end; ++i) {
        const bool fits = !(std::abs(x[i]) >= kRoundsToInfinity);  // NaN counts as fitting
        beyond += !fits;
        y[i] = static_cast<Eigen::half>(fits ? x[i] : std::copysign(kLargest, x[i]));
      }
      saturated += beyond;
    };
    context->device()->tensorflow_cpu_worker_threads()->workers->ParallelFor(input.NumElements(),
                                                                             kCost, round);
    if (saturated > 0) Report(saturated);
  }

 private:
  void Report(long long saturated) {
    Seen& seen = TheSeen();
    if (reports_) seen.overflow = true;
    std::lock_guard<std::mutex> lock(seen.mutex);
    seen.saturated[std::string(name())] += saturated;
  }

  bool reports_;
};

class NoOverflowKernel : public tensorflow::OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(tensorflow::OpKernelContext* context) override {
    tensorflow::Tensor* none = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, tensorflow::TensorShape({}), &none));
    none->scalar<bool>()() = !TakeOverflow();
  }
};

REGISTER_KERNEL_BUILDER(Name("NpuPrecisionSaturate").Device(tensorflow::DEVICE_CPU),
                        SaturateKernel);
REGISTER_KERNEL_BUILDER(Name("NpuPrecisionNoOverflow").Device(tensorflow::DEVICE_CPU),
                        NoOverflowKernel);

}  // namespace

bool TakeOverflow() { return TheSeen().overflow.exchange(false); }

std::map<std::string, long long> TakeSaturations() {
  std::map<std::string, long long> taken;
  std::lock_guard<std::mutex> lock(TheSeen().mutex);
  taken.swap(TheSeen().saturated);
  return taken;
}

void PlaceSaturationOnCpu(tensorflow::GraphDef* graph) {
  for (tensorflow::NodeDef& node : *graph->mutable_node()) {
    if (node.op() == kSaturateOp || node.op() == kNoOverflowOp) {
      node.set_device(CpuBeside(node.device()));
    }
  }
}

}  // namespace npu_precision
