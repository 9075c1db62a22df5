// The ops that update variables in one sweep, and read gradients of a low type.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cc/kept_casts.h"
#include "cc/tf_compat.h"
#include "cc/update_blocks.h"
#include "graph_passes/graph/private_ops.h"
#include "graph_passes/graph/update_program.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/framework/resource_var.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/lib/core/errors.h"
#include "tensorflow/core/lib/core/threadpool.h"
#include "tensorflow/core/platform/mutex.h"

namespace npu_precision {
namespace {

using tensorflow::DataType;
using tensorflow::OpKernelContext;
using tensorflow::Status;
using tensorflow::Tensor;
using tensorflow::Var;
using tensorflow::errors::FailedPrecondition;
using tensorflow::errors::InvalidArgument;

Status NoOutputs(tensorflow::shape_inference::InferenceContext*) { return Status(); }

REGISTER_OP("NpuPrecisionUpdate")
    .Input("variables: N * resource")
    .Input("tensors: T")
    .Input("scalars: S * float")
    .Attr("N: int >= 1")
    .Attr("T: list({float, half, bfloat16}) >= 0")
    .Attr("S: int >= 0")
    .Attr("program: string")
    .SetIsStateful()
    .SetShapeFn(NoOutputs)
    .Doc("Runs a program over the elements of variables and tensors of one size.");

REGISTER_OP("NpuPrecisionUpdateRef")
    .Input("variables: Ref(N * float)")
    .Input("tensors: T")
    .Input("scalars: S * float")
    .Attr("N: int >= 1")
    .Attr("T: list({float, half, bfloat16}) >= 0")
    .Attr("S: int >= 0")
    .Attr("program: string")
    .SetIsStateful()
    .SetShapeFn(NoOutputs)
    .Doc("As NpuPrecisionUpdate, for reference variables.");

// Locks each mutex once, in the order of addresses, as TensorFlow's training ops do.
class Locks {
 public:
  explicit Locks(std::vector<tensorflow::mutex*> mutexes) : mutexes_(std::move(mutexes)) {
    std::sort(mutexes_.begin(), mutexes_.end());
    mutexes_.erase(std::unique(mutexes_.begin(), mutexes_.end()), mutexes_.end());
    for (tensorflow::mutex* mutex : mutexes_) mutex->lock();
  }
  ~Locks() {
    for (tensorflow::mutex* mutex : mutexes_) mutex->unlock();
  }
  Locks(const Locks&) = delete;
  Locks& operator=(const Locks&) = delete;

 private:
  std::vector<tensorflow::mutex*> mutexes_;
};

class UpdateBase : public tensorflow::OpKernel {
 public:
  explicit UpdateBase(tensorflow::OpKernelConstruction* context) : OpKernel(context) {
    std::string text;
    std::vector<DataType> dtypes;
    OP_REQUIRES_OK(context, context->GetAttr("program", &text));
    OP_REQUIRES_OK(context, context->GetAttr("N", &variables_));
    OP_REQUIRES_OK(context, context->GetAttr("T", &dtypes));
    OP_REQUIRES_OK(context, context->GetAttr("S", &scalars_));
    tensors_ = static_cast<int>(dtypes.size());
    OP_REQUIRES_OK(context, ParseUpdate(text, variables_, tensors_, scalars_, &program_));
  }

 protected:
  int variables() const { return variables_; }
  // Whether the program writes the variable. It may only read it, such as a moment that other ops
  // have updated.
  bool Stores(int variable) const {
    return std::any_of(program_.begin(), program_.end(), [variable](const UpdateStep& step) {
      return step.kind == UpdateKind::kStore && step.a == variable;
    });
  }

  // `size` is that of all variables.
  Status ReadInputs(OpKernelContext* context, int64_t size, UpdateInputs* inputs) const {
    for (int k = 0; k < tensors_; ++k) {
      const Tensor& tensor = context->input(variables_ + k);
      if (tensor.NumElements() != size) {
        return InvalidArgument(def().input(variables_ + k), " has the shape ",
                               tensor.shape().DebugString(), ", but the variables have ", size,
                               " elements");
      }
      inputs->tensors.push_back({tensor.tensor_data().data(), tensor.dtype()});
    }
    for (int k = 0; k < scalars_; ++k) {
      const Tensor& scalar = context->input(variables_ + tensors_ + k);
      if (scalar.NumElements() != 1) {
        return InvalidArgument(def().input(variables_ + tensors_ + k), " has the shape ",
                               scalar.shape().DebugString(), ", but must be a scalar");
      }
      inputs->scalars.push_back(scalar.flat<float>()(0));
    }
    return Status();
  }

  void Run(OpKernelContext* context, const UpdateInputs& inputs, int64_t size) const {
    context->device()->tensorflow_cpu_worker_threads()->workers->ParallelFor(
        size, static_cast<int64_t>(program_.size()),
        [&](int64_t begin, int64_t end) { RunUpdate(program_, inputs, begin, end); });
  }

 private:
  UpdateProgram program_;
  int variables_ = 0, tensors_ = 0, scalars_ = 0;
};

Status CheckVariable(const Tensor& tensor, const std::string& name, int64_t size) {
  if (!tensor.IsInitialized()) {
    return FailedPrecondition("the variable ", name, " is not initialized");
  }
  if (tensor.dtype() != tensorflow::DT_FLOAT || tensor.NumElements() != size) {
    return InvalidArgument("the variable ", name, " is ", tensor.DebugString(),
                           ", but another of this update has ", size, " elements");
  }
  return Status();
}

class UpdateKernel : public UpdateBase {
 public:
  using UpdateBase::UpdateBase;

  void Compute(OpKernelContext* context) override {
    std::vector<tensorflow::core::RefCountPtr<Var>> vars(variables());
    std::vector<tensorflow::mutex*> mutexes;
    for (int k = 0; k < variables(); ++k) {
      OP_REQUIRES_OK(context, tensorflow::LookupResource(
                                  context, tensorflow::HandleFromInput(context, k), &vars[k]));
      mutexes.push_back(vars[k]->mu());
    }
    const Locks locks(mutexes);
    UpdateInputs inputs;
    const int64_t size = vars[0]->tensor()->NumElements();
    for (int k = 0; k < variables(); ++k) {
      const std::string name = std::string(tensorflow::HandleFromInput(context, k).name());
      OP_REQUIRES_OK(context, CheckVariable(*vars[k]->tensor(), name, size));
    }
    OP_REQUIRES_OK(context, ReadInputs(context, size, &inputs));
    std::vector<Copy> copies;
    for (int k = 0; k < variables(); ++k) {
      if (!Stores(k)) continue;
      OP_REQUIRES_OK(context, TakeCopies(context, *vars[k]->tensor(), k, &copies));
      OP_REQUIRES_OK(context, OwnBuffer(context, vars[k].get()));
    }
    // Now that all have their buffers: two of them may be one variable.
    for (const auto& var : vars) inputs.variables.push_back(var->tensor()->flat<float>().data());
    for (const Copy& copy : copies) {
      auto* data = reinterpret_cast<uint16_t*>(const_cast<char*>(copy.low.tensor_data().data()));
      inputs.copies.push_back({copy.variable, data, copy.low.dtype()});
    }
    Run(context, inputs, size);
    for (const Copy& copy : copies) {
      const Tensor& value = *vars[copy.variable]->tensor();
      copy.kept->Renew(value, copy.low);
      if (value.tensor_data().data() != copy.address) ShareCast(copy.kept);
      CountMadeCast();
    }
  }

 private:
  // A copy of a variable in a low type, which the update writes, too.
  struct Copy {
    int variable;
    std::shared_ptr<KeptCast> kept;
    const void* address;  // of the variable's value before
    Tensor low;
  };

  static Status TakeCopies(OpKernelContext* context, const Tensor& value, int variable,
                           std::vector<Copy>* copies) {
    for (DataType dtype : {tensorflow::DT_BFLOAT16, tensorflow::DT_HALF}) {
      Copy copy{variable, SharedCast(value, Tensor(), dtype, nullptr), value.tensor_data().data(),
                Tensor()};
      if (copy.kept == nullptr || !copy.kept->Release(value, &copy.low)) continue;
      if (copy.low.NumElements() == 0) {
        TF_RETURN_IF_ERROR(context->allocate_temp(dtype, value.shape(), &copy.low));
      }
      copies->push_back(std::move(copy));
    }
    return Status();
  }

  // Gives the variable a buffer that nothing else reads. TensorFlow's updates also copy the buffer
  // of a variable of which an op has read or written single rows: they may run while such an op
  // writes, but this one has the lock, and whoever reads such a variable copies it.
  static Status OwnBuffer(OpKernelContext* context, Var* var) {
    Tensor* tensor = var->tensor();
    if (IsOnlyReader(*tensor)) return Status();
    Tensor copy;
    TF_RETURN_IF_ERROR(context->allocate_temp(tensorflow::DT_FLOAT, tensor->shape(), &copy));
    const auto from = tensor->flat<float>();
    std::copy_n(from.data(), from.size(), copy.flat<float>().data());
    *tensor = copy;
    return Status();
  }
};

class UpdateRefKernel : public UpdateBase {
 public:
  using UpdateBase::UpdateBase;

  void Compute(OpKernelContext* context) override {
    std::vector<tensorflow::mutex*> mutexes;
    for (int k = 0; k < variables(); ++k) mutexes.push_back(context->input_ref_mutex(k));
    const Locks locks(mutexes);
    UpdateInputs inputs;
    int64_t size = 0;
    for (int k = 0; k < variables(); ++k) {
      Tensor tensor = context->mutable_input(k, /*lock_held=*/true);
      if (k == 0) size = tensor.NumElements();
      OP_REQUIRES_OK(context, CheckVariable(tensor, def().input(k), size));
      inputs.variables.push_back(tensor.flat<float>().data());
    }
    OP_REQUIRES_OK(context, ReadInputs(context, size, &inputs));
    Run(context, inputs, size);
  }
};

REGISTER_KERNEL_BUILDER(Name("NpuPrecisionUpdate").Device(tensorflow::DEVICE_CPU), UpdateKernel);
REGISTER_KERNEL_BUILDER(Name("NpuPrecisionUpdateRef").Device(tensorflow::DEVICE_CPU),
                        UpdateRefKernel);

}  // namespace
}  // namespace npu_precision
