// Keeps what weights were cast to, so that a step does not cast what has not changed.
//
// A copy holds the buffer that it was made of. What writes a resource variable in place asks first
// whether it is the only reader of the buffer, and takes a new one if it is not. So a value that
// was read does not change while it is held, and a copy is right for every tensor that has this
// buffer. (A scale is compared by its values: it may come from anything.)
#ifndef NPU_PRECISION_CC_KEPT_CASTS_H_
#define NPU_PRECISION_CC_KEPT_CASTS_H_

#include <cstdint>
#include <memory>
#include <mutex>

#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/types.pb.h"

namespace npu_precision {

// One copy in a low type, perhaps multiplied by a vector before it was rounded. A scale without
// elements is none.
class KeptCast {
 public:
  // Nothing else may have the buffer of `scale`.
  KeptCast(const tensorflow::Tensor& value, const tensorflow::Tensor& scale,
           const tensorflow::Tensor& low)
      : value_(value), scale_(scale), low_(low) {}

  // Whether this is a copy of this very buffer in this type, by a scale of the same bits; then
  // `low`, if it is given, becomes it.
  bool Find(const tensorflow::Tensor& value, const tensorflow::Tensor& scale,
            tensorflow::DataType dtype, tensorflow::Tensor* low);

  // Lets the buffer go that is about to be written. Returns whether it was held; then `low` becomes
  // a tensor for the new copy, without elements if others still read the old one.
  bool Release(const tensorflow::Tensor& value, tensorflow::Tensor* low);
  // Holds what was written after Release().
  void Renew(const tensorflow::Tensor& value, const tensorflow::Tensor& low);

  // Lets all go if no variable has the buffer any more.
  void LetGoIfUnused();
  // Where the value is held, and the size of the copy in bytes; nullptr and 0 if it was let go.
  const void* Address();
  int64_t Bytes();

 private:
  std::mutex mutex_;
  tensorflow::Tensor value_, scale_, low_;
};

// Lets all kernels find the copy, which lives as long as a kernel has it; and lets those go that
// are of no use any more. Also to be called when a copy has a new address.
void ShareCast(const std::shared_ptr<KeptCast>& cast);
// A copy that Find()s this, or nullptr.
std::shared_ptr<KeptCast> SharedCast(const tensorflow::Tensor& value,
                                     const tensorflow::Tensor& scale, tensorflow::DataType dtype,
                                     tensorflow::Tensor* low);

// How many copies were made or renewed in this process, and what is kept.
struct KeptCasts {
  int64_t made = 0, kept = 0, bytes = 0;
};
void CountMadeCast();
KeptCasts CountKeptCasts();

}  // namespace npu_precision

#endif  // NPU_PRECISION_CC_KEPT_CASTS_H_
