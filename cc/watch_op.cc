#include "cc/watch_op.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>

#include "cc/flight_store.h"
#include "tensorflow/core/common_runtime/device.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/lib/core/threadpool.h"

namespace npu_precision {

const char kWatchOp[] = "NpuPrecisionWatch";

namespace {

using tensorflow::OpKernelContext;
using tensorflow::Tensor;

// It has state, so that TensorFlow neither drops nor merges it.
REGISTER_OP("NpuPrecisionWatch")
    .Input("x: T")
    .Attr("T: {float, half, bfloat16}")
    .Attr("low_type: {float, half, bfloat16}")
    .Attr("graph: int")
    .Attr("tensor: int")
    .SetIsStateful()
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext*) { return tensorflow::Status(); })
    .Doc("Counts what is in a tensor, in the steps that a flight recorder records.");

// About a nanosecond per value, in cycles.
constexpr int kCost = 3;

// Magnitudes are compared by their bits, which have the order of the numbers.
template <typename Bits>
struct Limits {
  Bits infinity;
  // Finite values above the first limit overflow. Values below the second are zero or subnormal.
  Bits last_that_fits, first_normal;
};

Limits<uint16_t> LimitsOf(uint16_t infinity, uint16_t first_normal) {
  return {infinity, infinity, first_normal};
}

// The limits for float32 values that will be rounded to `low_type`. They overflow from halfway
// between its largest value and the next number it would have.
Limits<uint32_t> LimitsOfFloat(tensorflow::DataType low_type) {
  constexpr uint32_t kInfinity = 0x7f800000, kFirstNormal = 0x00800000;
  if (low_type == tensorflow::DT_HALF) return {kInfinity, 0x477fefff, 0x38800000};
  if (low_type == tensorflow::DT_BFLOAT16) return {kInfinity, 0x7f7f7fff, kFirstNormal};
  return {kInfinity, kInfinity, kFirstNormal};
}

// Counts without branches, so that the compiler uses vector instructions, and in blocks that are
// small enough for 16-bit counts.
template <typename Bits>
TensorCounts Count(const Bits* values, long long size, const Limits<Bits>& limits, Bits* largest) {
  constexpr Bits kMagnitude = static_cast<Bits>(~Bits{0}) >> 1;
  constexpr long long kBlock = 1 << 14;
  TensorCounts counts;
  counts.elements = size;
  Bits most = 0;
  for (long long begin = 0; begin < size; begin += kBlock) {
    const long long end = std::min(begin + kBlock, size);
    Bits zeros = 0, infinities = 0, nans = 0, over = 0, small = 0;
    for (long long i = begin; i < end; ++i) {
      const Bits bits = values[i] & kMagnitude;
      zeros += bits == 0;
      small += bits < limits.first_normal;
      over += bits > limits.last_that_fits;
      infinities += bits == limits.infinity;
      nans += bits > limits.infinity;
      const Bits finite = bits < limits.infinity ? bits : Bits{0};
      most = finite > most ? finite : most;
    }
    counts.zeros += zeros;
    counts.under += small - zeros;
    counts.infinities += infinities;
    counts.nans += nans;
    counts.over += limits.last_that_fits == limits.infinity ? 0 : over - infinities - nans;
  }
  *largest = most;
  return counts;
}

template <typename T>
T FromBits(const void* bits) {
  T value;
  std::memcpy(&value, bits, sizeof(T));
  return value;
}

template <typename T>
TensorStatistics StatisticsOf(const T* values, long long size) {
  TensorStatistics statistics;
  for (long long i = 0; i < size; ++i) {
    const float value = static_cast<float>(values[i]);
    if (!std::isfinite(value)) continue;
    statistics.sum += value;
    statistics.squares += static_cast<double>(value) * value;
    statistics.magnitudes += std::fabs(value);
    statistics.least = std::min(statistics.least, value);
    statistics.most = std::max(statistics.most, value);
  }
  return statistics;
}

// Counts on the threads of `workers`, or on this one if there are none.
template <typename T, typename Bits>
TensorCounts CountAll(const Tensor& input, tensorflow::thread::ThreadPool* workers,
                      const Limits<Bits>& limits, bool statistics) {
  const auto* values = reinterpret_cast<const Bits*>(input.tensor_data().data());
  std::mutex mutex;
  TensorCounts all;
  const auto count = [&](long long begin, long long end) {
    Bits most = 0;
    TensorCounts counts = Count<Bits>(values + begin, end - begin, limits, &most);
    counts.largest = static_cast<float>(FromBits<T>(&most));
    if (statistics) {
      const T* numbers = reinterpret_cast<const T*>(input.tensor_data().data());
      counts.statistics = StatisticsOf(numbers + begin, end - begin);
    }
    std::lock_guard<std::mutex> lock(mutex);
    all.Add(counts, 0);
  };
  if (workers == nullptr) {
    count(0, input.NumElements());
  } else {
    workers->ParallelFor(input.NumElements(), kCost, count);
  }
  return all;
}

// The recorder's entry of a kernel's tensor.
class Recorded {
 public:
  explicit Recorded(tensorflow::OpKernelConstruction* context) {
    int graph = 0;
    OP_REQUIRES_OK(context, context->GetAttr("graph", &graph));
    OP_REQUIRES_OK(context, context->GetAttr("tensor", &tensor_));
    OP_REQUIRES_OK(context, context->GetAttr("low_type", &low_type_));
    graph_ = FlightStore::Get().Find(graph);
  }

  // Another recorder that opened meanwhile may have released the graph. That is not an error.
  bool Records(const OpKernelContext& context) const {
    return graph_ != nullptr && graph_->Records(context.step_id(), tensor_);
  }

  // Adds the counts of `values`, which are in the host's memory. Fails if the step stops here.
  void Add(const Tensor& values, tensorflow::thread::ThreadPool* workers,
           OpKernelContext* context) const {
    context->SetStatus(graph_->Add(context->step_id(), tensor_, CountOf(values, workers),
                                   context->frame_iter().iter_id));
  }

 private:
  TensorCounts CountOf(const Tensor& values, tensorflow::thread::ThreadPool* workers) const {
    const bool statistics = FlightStore::Get().selection()->statistics;
    switch (values.dtype()) {
      case tensorflow::DT_HALF:
        return CountAll<Eigen::half>(values, workers, LimitsOf(0x7c00, 0x0400), statistics);
      case tensorflow::DT_BFLOAT16:
        return CountAll<tensorflow::bfloat16>(values, workers, LimitsOf(0x7f80, 0x0080),
                                              statistics);
      default:
        return CountAll<float>(values, workers, LimitsOfFloat(low_type_), statistics);
    }
  }

  std::shared_ptr<WatchedGraph> graph_;
  int tensor_ = 0;
  tensorflow::DataType low_type_ = tensorflow::DT_FLOAT;
};

tensorflow::thread::ThreadPool* WorkersOf(OpKernelContext* context) {
  return context->device()->tensorflow_cpu_worker_threads()->workers;
}

class WatchKernel : public tensorflow::OpKernel {
 public:
  explicit WatchKernel(tensorflow::OpKernelConstruction* context)
      : OpKernel(context), recorded_(context) {}

  // Marks the kernel as cheap: moving it to another thread would cost more than the kernel.
  bool IsExpensive() override { return false; }

  void Compute(OpKernelContext* context) override {
    if (recorded_.Records(*context)) recorded_.Add(context->input(0), WorkersOf(context), context);
  }

 private:
  const Recorded recorded_;
};

// Where a GPU has the tensor, a recorded step copies it to the host. Other steps launch nothing and
// wait for nothing. What cannot be copied is not recorded, and changes no result.
class WatchGpuKernel : public tensorflow::AsyncOpKernel {
 public:
  explicit WatchGpuKernel(tensorflow::OpKernelConstruction* context)
      : AsyncOpKernel(context), recorded_(context) {}

  bool IsExpensive() override { return false; }

  void ComputeAsync(OpKernelContext* context, DoneCallback done) override {
    if (!recorded_.Records(*context)) {
      done();
      return;
    }
    tensorflow::DeviceContext* const device = context->op_device_context();
    tensorflow::AllocatorAttributes on_host;
    on_host.set_on_host(true);
    on_host.set_gpu_compatible(true);
    const Tensor& input = context->input(0);
    const auto copy = std::make_shared<Tensor>();
    const bool has_memory =
        device != nullptr &&
        context->allocate_temp(input.dtype(), input.shape(), copy.get(), on_host).ok();
    if (!has_memory) {
      done();
      return;
    }
    const auto count = [this, context, copy, done](const tensorflow::Status& status) {
      if (!status.ok()) {
        done();
        return;
      }
      // Not on the thread of the copy, which other copies wait for; and on one thread, because
      // threads that all wait for parts of their own work would wait for ever.
      WorkersOf(context)->Schedule([this, context, copy, done] {
        recorded_.Add(*copy, nullptr, context);
        done();
      });
    };
    device->CopyDeviceTensorToCPU(&input, "NpuPrecisionWatch",
                                  static_cast<tensorflow::Device*>(context->device()), copy.get(),
                                  count);
  }

 private:
  const Recorded recorded_;
};

REGISTER_KERNEL_BUILDER(Name("NpuPrecisionWatch").Device(tensorflow::DEVICE_CPU), WatchKernel);
REGISTER_KERNEL_BUILDER(Name("NpuPrecisionWatch").Device(tensorflow::DEVICE_GPU), WatchGpuKernel);

}  // namespace
}  // namespace npu_precision
