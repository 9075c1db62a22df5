#include "cc/kept_casts.h"

#include <atomic>
#include <iterator>
#include <map>
#include <mutex>

#include "cc/tf_compat.h"

namespace npu_precision {
namespace {

using tensorflow::DataType;
using tensorflow::Tensor;

const void* AddressOf(const Tensor& tensor) { return tensor.tensor_data().data(); }

// Whether both are the same elements in memory, of whatever shapes.
bool HasBufferOf(const Tensor& a, const Tensor& b) {
  return a.NumElements() > 0 && a.NumElements() == b.NumElements() && a.SharesBufferWith(b) &&
         AddressOf(a) == AddressOf(b);
}

bool HasBitsOf(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && a.tensor_data() == b.tensor_data();
}

struct Shared {
  std::atomic<int64_t> made{0};
  std::mutex mutex;
  std::multimap<const void*, std::weak_ptr<KeptCast>> casts;  // by Address()
};

Shared& TheShared() {
  static auto* shared = new Shared();
  return *shared;
}

}  // namespace

bool KeptCast::Find(const Tensor& value, const Tensor& scale, DataType dtype, Tensor* low) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!HasBufferOf(value, value_) || !HasBitsOf(scale, scale_) || low_.dtype() != dtype) {
    return false;
  }
  return low == nullptr || low->CopyFrom(low_, value.shape());
}

bool KeptCast::Release(const Tensor& value, Tensor* low) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!HasBufferOf(value, value_)) return false;
  if (IsOnlyReader(low_) && !low->CopyFrom(low_, value.shape())) return false;
  value_ = Tensor();
  low_ = Tensor();
  return true;
}

void KeptCast::Renew(const Tensor& value, const Tensor& low) {
  const std::lock_guard<std::mutex> lock(mutex_);
  value_ = value;
  low_ = low;
}

void KeptCast::LetGoIfUnused() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (value_.NumElements() == 0 || !IsOnlyReader(value_)) return;
  value_ = Tensor();
  scale_ = Tensor();
  low_ = Tensor();
}

const void* KeptCast::Address() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return value_.NumElements() == 0 ? nullptr : AddressOf(value_);
}

int64_t KeptCast::Bytes() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return static_cast<int64_t>(low_.TotalBytes());
}

void ShareCast(const std::shared_ptr<KeptCast>& cast) {
  Shared& shared = TheShared();
  const std::lock_guard<std::mutex> lock(shared.mutex);
  for (auto each = shared.casts.begin(); each != shared.casts.end();) {
    const std::shared_ptr<KeptCast> known = each->second.lock();
    if (known != nullptr) known->LetGoIfUnused();
    const void* address = known == nullptr ? nullptr : known->Address();
    // An update that is running has let go of one that it will renew.
    const bool stays =
        known != nullptr && known != cast && (address == nullptr || address == each->first);
    each = stays ? std::next(each) : shared.casts.erase(each);
  }
  shared.casts.emplace(cast->Address(), cast);
}

std::shared_ptr<KeptCast> SharedCast(const Tensor& value, const Tensor& scale, DataType dtype,
                                     Tensor* low) {
  Shared& shared = TheShared();
  const std::lock_guard<std::mutex> lock(shared.mutex);
  const auto found = shared.casts.equal_range(AddressOf(value));
  for (auto each = found.first; each != found.second; ++each) {
    const std::shared_ptr<KeptCast> cast = each->second.lock();
    if (cast != nullptr && cast->Find(value, scale, dtype, low)) return cast;
  }
  return nullptr;
}

void CountMadeCast() { ++TheShared().made; }

KeptCasts CountKeptCasts() {
  Shared& shared = TheShared();
  const std::lock_guard<std::mutex> lock(shared.mutex);
  KeptCasts count;
  count.made = shared.made;
  for (const auto& each : shared.casts) {
    const std::shared_ptr<KeptCast> cast = each.second.lock();
    const int64_t bytes = cast == nullptr ? 0 : cast->Bytes();
    count.kept += bytes > 0;
    count.bytes += bytes;
  }
  return count;
}

}  // namespace npu_precision
