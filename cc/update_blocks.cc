#include "cc/update_blocks.h"

#include <algorithm>
#include <cstring>

#include "cc/low_blocks.h"

namespace npu_precision {
namespace {

// Two dozen steps of so many floats, and what is prefetched, fit into a first-level cache of 32 kB.
// With four times as many, an update of momentum takes twice as long.
constexpr int kBlock = 128;
// A line of the cache, in floats.
constexpr int kLine = 16;

// All loops have a constant length: the compiler needs no more to vectorize them.
NPU_PRECISION_VECTORIZED
void Compute(UpdateKind kind, const float* a, const float* b, float* out) {
  switch (kind) {
    case UpdateKind::kAdd:
      for (int i = 0; i < kBlock; ++i) out[i] = a[i] + b[i];
      break;
    case UpdateKind::kSub:
      for (int i = 0; i < kBlock; ++i) out[i] = a[i] - b[i];
      break;
    case UpdateKind::kMul:
      for (int i = 0; i < kBlock; ++i) out[i] = a[i] * b[i];
      break;
    case UpdateKind::kDiv:
      for (int i = 0; i < kBlock; ++i) out[i] = a[i] / b[i];
      break;
    case UpdateKind::kSquare:
      for (int i = 0; i < kBlock; ++i) out[i] = a[i] * a[i];
      break;
    case UpdateKind::kSqrt:
      for (int i = 0; i < kBlock; ++i) out[i] = __builtin_sqrtf(a[i]);
      break;
    case UpdateKind::kRsqrt:
      for (int i = 0; i < kBlock; ++i) out[i] = 1.0f / __builtin_sqrtf(a[i]);
      break;
    case UpdateKind::kNeg:
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

// The blocks of all steps. What does not depend on the element is computed once.
class Blocks {
 public:
  Blocks(const UpdateProgram& program, const UpdateInputs& inputs)
      : program_(program),
        inputs_(inputs),
        memory_(program.size() * kBlock + kLine),
        first_(Aligned(memory_.data())),
        values_(program.size()),
        is_stored_(program.size(), false) {
    for (const UpdateStep& step : program_) {
      if (step.kind == UpdateKind::kStore) is_stored_[step.b] = true;
      const bool is_uniform = IsUniform(step);
      if (is_uniform) Run(static_cast<int>(is_uniform_.size()), 0, kBlock);
      is_uniform_.push_back(is_uniform);
    }
  }

  void Run(int64_t begin, int count) {
    for (size_t k = 0; k < program_.size(); ++k) {
      if (!is_uniform_[k]) Run(static_cast<int>(k), begin, count);
    }
  }

 private:
  static float* Aligned(float* memory) {
    constexpr uintptr_t kBytes = kLine * sizeof(float);
    const auto address = reinterpret_cast<uintptr_t>(memory);
    return reinterpret_cast<float*>((address + kBytes - 1) / kBytes * kBytes);
  }

  bool IsUniform(const UpdateStep& step) const {
    switch (step.kind) {
      case UpdateKind::kScalar:
      case UpdateKind::kOne:
        return true;
      case UpdateKind::kVariable:
      case UpdateKind::kTensor:
      case UpdateKind::kStore:
        return false;
      default:
        return is_uniform_[step.a] && (!ReadsSecond(step.kind) || is_uniform_[step.b]);
    }
  }

  void Run(int number, int64_t begin, int count) {
    const UpdateStep& step = program_[number];
    float* const own = first_ + number * kBlock;
    values_[number] = own;
    switch (step.kind) {
      case UpdateKind::kVariable: {
        // A variable that is stored elsewhere may be overwritten before.
        const UpdateTensor variable = {inputs_.variables[step.a], tensorflow::DT_FLOAT};
        values_[number] = Load(variable, begin, count, is_stored_[number], own);
        break;
      }
      case UpdateKind::kTensor:
        values_[number] = Load(inputs_.tensors[step.a], begin, count, false, own);
        break;
      case UpdateKind::kScalar:
        std::fill_n(own, kBlock, inputs_.scalars[step.a]);
        break;
      case UpdateKind::kOne:
        std::fill_n(own, kBlock, 1.0f);
        break;
      case UpdateKind::kStore:
        Store(step.a, begin, count, values_[step.b]);
        break;
      default:
        Compute(step.kind, values_[step.a], ReadsSecond(step.kind) ? values_[step.b] : nullptr,
                own);
    }
  }

  void Store(int variable, int64_t begin, int count, const float* value) const {
    std::memcpy(inputs_.variables[variable] + begin, value, count * sizeof(float));
    for (const UpdateCopy& copy : inputs_.copies) {
      if (copy.variable == variable) ToLow(value, count, copy.dtype, copy.data + begin);
    }
  }

  const UpdateProgram& program_;
  const UpdateInputs& inputs_;
  std::vector<float> memory_;
  float* const first_;                // the blocks by step
  std::vector<const float*> values_;  // by step: of the block
  std::vector<bool> is_stored_;       // by step
  std::vector<bool> is_uniform_;
};

}  // namespace

void RunUpdate(const UpdateProgram& program, const UpdateInputs& inputs, int64_t begin,
               int64_t end) {
  Blocks blocks(program, inputs);
  for (int64_t at = begin; at < end; at += kBlock) {
    blocks.Run(at, static_cast<int>(std::min<int64_t>(kBlock, end - at)));
  }
}

}  // namespace npu_precision
