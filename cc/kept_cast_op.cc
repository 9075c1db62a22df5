// The op that casts weights to a low type, and keeps the result until they change.
#include <algorithm>
#include <memory>

#include "cc/kept_casts.h"
#include "cc/low_blocks.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/framework/tensor_util.h"
#include "tensorflow/core/lib/core/errors.h"
#include "tensorflow/core/lib/core/threadpool.h"
#include "tensorflow/core/platform/mutex.h"

namespace npu_precision {
namespace {

using tensorflow::DataType;
using tensorflow::OpKernelContext;
using tensorflow::Status;
using tensorflow::Tensor;
using tensorflow::errors::InvalidArgument;

// Without state: it yields what a Mul and a Cast would.
REGISTER_OP("NpuPrecisionKeptCast")
    .Input("x: float")
    .Input("scale: S * float")
    .Output("y: dtype")
    .Attr("S: int >= 0")
    .Attr("dtype: {half, bfloat16}")
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* context) {
      context->set_output(0, context->input(0));
      return Status();
    })
    .Doc("Multiplies by a scale of the last dimensions, if there is one, and rounds.");

// So many changes with one call in between, one after the other. Whatever writes x has to take a
// new buffer each time, because the old one is held here.
constexpr int kOftenInVain = 3;
// Cycles for an element.
constexpr int kCost = 2;
// Of products that stay in the first-level cache until they are rounded.
constexpr int64_t kBlock = 512;

NPU_PRECISION_VECTORIZED
void Multiply(const float* __restrict a, const float* __restrict b, int64_t size,
              float* __restrict to) {
  for (int64_t i = 0; i < size; ++i) to[i] = a[i] * b[i];
}

// Elements from `begin` up to `end`. The scale has `period` elements.
void RoundScaled(const float* x, const float* scale, int64_t period, int64_t begin, int64_t end,
                 DataType dtype, uint16_t* to) {
  float block[kBlock];
  for (int64_t at = begin; at < end;) {
    const int64_t phase = at % period;
    const int64_t size = std::min({kBlock, end - at, period - phase});
    Multiply(x + at, scale + phase, size, block);
    ToLow(block, size, dtype, to + at);
    at += size;
  }
}

// Whether the shape of the scale is that of the last dimensions of x.
bool IsOfLastDimensions(const Tensor& scale, const Tensor& x) {
  const int skipped = x.dims() - scale.dims();
  if (skipped < 0) return false;
  for (int dim = 0; dim < scale.dims(); ++dim) {
    if (scale.dim_size(dim) != x.dim_size(skipped + dim)) return false;
  }
  return true;
}

class KeptCastKernel : public tensorflow::OpKernel {
 public:
  explicit KeptCastKernel(tensorflow::OpKernelConstruction* context) : OpKernel(context) {
    int scales = 0;
    OP_REQUIRES_OK(context, context->GetAttr("dtype", &dtype_));
    OP_REQUIRES_OK(context, context->GetAttr("S", &scales));
    OP_REQUIRES(context, scales <= 1,
                InvalidArgument(name(), " takes at most one scale, got ", scales));
    has_scale_ = scales == 1;
  }

  void Compute(OpKernelContext* context) override {
    const Tensor& x = context->input(0);
    const Tensor scale = has_scale_ ? context->input(1) : Tensor();
    OP_REQUIRES(context, !has_scale_ || IsOfLastDimensions(scale, x),
                InvalidArgument("a scale of the shape ", scale.shape().DebugString(),
                                " is not of the last dimensions of ", x.shape().DebugString()));
    Tensor low;
    if (!Find(x, scale, &low)) {
      // Whatever made the scale may write it again.
      const Tensor own_scale = has_scale_ ? tensorflow::tensor::DeepCopy(scale) : Tensor();
      OP_REQUIRES_OK(context, context->allocate_temp(dtype_, x.shape(), &low));
      Round(context, x, own_scale, &low);
      CountMadeCast();
      Keep(x, own_scale, low);
    }
    context->set_output(0, low);
  }

 private:
  bool Find(const Tensor& x, const Tensor& scale, Tensor* low) {
    const tensorflow::mutex_lock lock(mutex_);
    if (kept_ != nullptr && kept_->Find(x, scale, dtype_, low)) {
      in_vain_ = 0;
      return true;
    }
    const std::shared_ptr<KeptCast> shared = SharedCast(x, scale, dtype_, low);
    if (shared == nullptr) return false;
    kept_ = shared;
    return true;
  }

  void Keep(const Tensor& x, const Tensor& scale, const Tensor& low) {
    if (x.NumElements() == 0) return;
    const tensorflow::mutex_lock lock(mutex_);
    if (kept_ != nullptr) {
      // Another thread may have made it in the meantime.
      if (kept_->Find(x, scale, dtype_, nullptr)) return;
      ++in_vain_;
    }
    kept_ = nullptr;
    if (in_vain_ >= kOftenInVain) return;
    kept_ = std::make_shared<KeptCast>(x, scale, low);
    ShareCast(kept_);
  }

  void Round(OpKernelContext* context, const Tensor& x, const Tensor& scale, Tensor* low) const {
    const float* from = x.flat<float>().data();
    auto* const to = reinterpret_cast<uint16_t*>(const_cast<char*>(low->tensor_data().data()));
    context->device()->tensorflow_cpu_worker_threads()->workers->ParallelFor(
        x.NumElements(), kCost, [&](int64_t begin, int64_t end) {
          if (has_scale_) {
            const auto factors = scale.flat<float>();
            RoundScaled(from, factors.data(), factors.size(), begin, end, dtype_, to);
          } else {
            ToLow(from + begin, end - begin, dtype_, to + begin);
          }
        });
  }

  DataType dtype_;
  tensorflow::mutex mutex_;
  std::shared_ptr<KeptCast> kept_;
  int in_vain_ = 0;
  bool has_scale_ = false;
};

REGISTER_KERNEL_BUILDER(Name("NpuPrecisionKeptCast").Device(tensorflow::DEVICE_CPU),
                        KeptCastKernel);

}  // namespace
}  // namespace npu_precision
