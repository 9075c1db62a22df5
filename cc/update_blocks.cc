#include "cc/update_blocks.h"

#include <algorithm>
#include <cstring>

#include "cc/low_blocks.h"
#include "cc/update_plan.h"

namespace npu_precision {
namespace {

// The passes of an update in so many floats, and what is prefetched, fit into a first-level cache
// of 32 kB.
constexpr int kBlock = 256;
// A line of the cache, in floats.
constexpr int kLine = 16;

// All loops have a constant length, and what they write is nothing that they read, or in the same
// place: the compiler needs no more to vectorize them.
NPU_PRECISION_VECTORIZED
void Compute(PassKind kind, const float* a, const float* b, const float* c, const float* d,
             float* out) {
  switch (kind) {
    case PassKind::kAdd:
#pragma GCC ivdep
      for (int i = 0; i < kBlock; ++i) out[i] = a[i] + b[i];
      break;
    case PassKind::kSub:
#pragma GCC ivdep
      for (int i = 0; i < kBlock; ++i) out[i] = a[i] - b[i];
      break;
    case PassKind::kMul:
#pragma GCC ivdep
      for (int i = 0; i < kBlock; ++i) out[i] = a[i] * b[i];
      break;
    case PassKind::kDiv:
#pragma GCC ivdep
      for (int i = 0; i < kBlock; ++i) out[i] = a[i] / b[i];
      break;
    case PassKind::kMulAdd:
#pragma GCC ivdep
      for (int i = 0; i < kBlock; ++i) out[i] = a[i] * b[i] + c[i];
      break;
    case PassKind::kMulSub:
#pragma GCC ivdep
      for (int i = 0; i < kBlock; ++i) out[i] = a[i] * b[i] - c[i];
      break;
    case PassKind::kSubMul:
#pragma GCC ivdep
      for (int i = 0; i < kBlock; ++i) out[i] = c[i] - a[i] * b[i];
      break;
    case PassKind::kMoveBy:
#pragma GCC ivdep
      for (int i = 0; i < kBlock; ++i) out[i] = c[i] + (a[i] - d[i]) * b[i];
      break;
    case PassKind::kSubDiv:
#pragma GCC ivdep
      for (int i = 0; i < kBlock; ++i) out[i] = c[i] - a[i] / b[i];
      break;
    case PassKind::kSqrtAdd:
#pragma GCC ivdep
      for (int i = 0; i < kBlock; ++i) out[i] = __builtin_sqrtf(a[i]) + c[i];
      break;
    case PassKind::kSquare:
#pragma GCC ivdep
      for (int i = 0; i < kBlock; ++i) out[i] = a[i] * a[i];
      break;
    case PassKind::kSqrt:
#pragma GCC ivdep
      for (int i = 0; i < kBlock; ++i) out[i] = __builtin_sqrtf(a[i]);
      break;
    case PassKind::kRsqrt:
#pragma GCC ivdep
      for (int i = 0; i < kBlock; ++i) out[i] = 1.0f / __builtin_sqrtf(a[i]);
      break;
    case PassKind::kNeg:
#pragma GCC ivdep
      for (int i = 0; i < kBlock; ++i) out[i] = -a[i];
      break;
    default:
      break;
  }
}

// Asks for what a later block will read. The bursts of one block are too short for the processor to
// see that it should.
void Prefetch(const void* data, int64_t bytes_ahead, int bytes) {
  const char* from = static_cast<const char*>(data) + bytes_ahead;
  for (int k = 0; k < bytes; k += 64) __builtin_prefetch(from + k);
}

// The elements of a tensor from `begin` on, or a copy in `to`; zeros behind the last of `count`.
const float* Load(const UpdateTensor& tensor, int64_t begin, int count, bool copies, float* to) {
  const int size = tensor.dtype == tensorflow::DT_FLOAT ? sizeof(float) : sizeof(uint16_t);
  Prefetch(tensor.data, (begin + kBlock) * size, kBlock * size);
  if (tensor.dtype == tensorflow::DT_FLOAT) {
    const float* from = static_cast<const float*>(tensor.data) + begin;
    if (count == kBlock && !copies) return from;
    std::memcpy(to, from, count * sizeof(float));
    std::fill(to + count, to + kBlock, 0.0f);
    return to;
  }
  // Both low types have two bytes, and zeros are zeros in both.
  const auto* from = static_cast<const uint16_t*>(tensor.data) + begin;
  uint16_t last[kBlock];
  if (count < kBlock) {
    std::memcpy(last, from, count * sizeof(uint16_t));
    std::fill(last + count, last + kBlock, uint16_t{0});
    from = last;
  }
  FromLow(from, kBlock, tensor.dtype, to);
  return to;
}

// The passes of a plan over one block after the other, and the memory of their values.
class Blocks {
 public:
  Blocks(const UpdateProgram& program, const UpdateInputs& inputs, bool in_place)
      : plan_(PlanUpdate(program, in_place)),
        inputs_(inputs),
        memory_(plan_.slots * kBlock + kLine),
        first_(Aligned(memory_.data())),
        values_(program.size()) {
    for (const UpdatePass& pass : plan_.once) Run(pass, 0, kBlock);
  }

  void Run(int64_t begin, int count) {
    for (const UpdatePass& pass : plan_.each) Run(pass, begin, count);
  }

 private:
  static float* Aligned(float* memory) {
    constexpr uintptr_t kBytes = kLine * sizeof(float);
    const auto address = reinterpret_cast<uintptr_t>(memory);
    return reinterpret_cast<float*>((address + kBytes - 1) / kBytes * kBytes);
  }

  const float* Value(int number) const { return number < 0 ? nullptr : values_[number]; }

  void Run(const UpdatePass& pass, int64_t begin, int count) {
    float* const own = pass.variable == kNowhere ? first_ + pass.slot * kBlock
                                                 : inputs_.variables[pass.variable] + begin;
    switch (pass.kind) {
      case PassKind::kLoadVariable:
        values_[pass.value] = Load({inputs_.variables[pass.a], tensorflow::DT_FLOAT}, begin, count,
                                   /*copies=*/pass.slot != kNowhere, own);
        return;
      case PassKind::kLoadTensor:
        values_[pass.value] = Load(inputs_.tensors[pass.a], begin, count, false, own);
        return;
      case PassKind::kStore: {
        const float* const value = values_[pass.b];
        std::memcpy(inputs_.variables[pass.a] + begin, value, count * sizeof(float));
        WriteCopies(pass.a, begin, count, value);
        return;
      }
      case PassKind::kLoadScalar:
        std::fill_n(own, kBlock, inputs_.scalars[pass.a]);
        break;
      case PassKind::kOne:
        std::fill_n(own, kBlock, 1.0f);
        break;
      default:
        Compute(pass.kind, Value(pass.a), Value(pass.b), Value(pass.c), Value(pass.d), own);
    }
    values_[pass.value] = own;
    if (pass.variable != kNowhere) WriteCopies(pass.variable, begin, count, own);
  }

  void WriteCopies(int variable, int64_t begin, int count, const float* value) const {
    for (const UpdateCopy& copy : inputs_.copies) {
      if (copy.variable == variable) ToLow(value, count, copy.dtype, copy.data + begin);
    }
  }

  const UpdatePlan plan_;
  const UpdateInputs& inputs_;
  std::vector<float> memory_;
  float* const first_;                // the first slot
  std::vector<const float*> values_;  // by number: of the block
};

// Whether two of the variables are one.
bool Overlap(const std::vector<float*>& variables) {
  for (size_t k = 1; k < variables.size(); ++k) {
    if (std::count(variables.begin(), variables.begin() + k, variables[k]) != 0) return true;
  }
  return false;
}

}  // namespace

void RunUpdate(const UpdateProgram& program, const UpdateInputs& inputs, int64_t begin,
               int64_t end) {
  const int64_t whole = Overlap(inputs.variables) ? 0 : (end - begin) / kBlock * kBlock;
  if (whole > 0) {
    Blocks blocks(program, inputs, /*in_place=*/true);
    for (int64_t at = begin; at < begin + whole; at += kBlock) blocks.Run(at, kBlock);
  }
  if (begin + whole == end) return;
  Blocks blocks(program, inputs, /*in_place=*/false);
  for (int64_t at = begin + whole; at < end; at += kBlock) {
    blocks.Run(at, static_cast<int>(std::min<int64_t>(kBlock, end - at)));
  }
}

}  // namespace npu_precision
