#include "cc/low_blocks.h"

#include <cstring>

#include "tensorflow/core/framework/bfloat16.h"

namespace npu_precision {
namespace {

NPU_PRECISION_VECTORIZED
void FromBfloat16(const uint16_t* __restrict from, int64_t size, float* __restrict to) {
  for (int64_t i = 0; i < size; ++i) {
    const uint32_t bits = static_cast<uint32_t>(from[i]) << 16;
    std::memcpy(&to[i], &bits, sizeof(bits));
  }
}

// To the nearest, of two equally near ones to the even one; a NaN stays one.
NPU_PRECISION_VECTORIZED
void ToBfloat16(const float* __restrict from, int64_t size, uint16_t* __restrict to) {
  for (int64_t i = 0; i < size; ++i) {
    uint32_t bits;
    std::memcpy(&bits, &from[i], sizeof(bits));
    const uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    const uint32_t nan = ((bits >> 16) & 0x8000) | 0x7fc0;
    to[i] = static_cast<uint16_t>((bits & 0x7fffffff) > 0x7f800000 ? nan : rounded);
  }
}

}  // namespace

void FromLow(const uint16_t* from, int64_t size, tensorflow::DataType dtype, float* to) {
  if (dtype == tensorflow::DT_BFLOAT16) {
    FromBfloat16(from, size, to);
    return;
  }
  const auto* halves = reinterpret_cast<const Eigen::half*>(from);
  for (int64_t i = 0; i < size; ++i) to[i] = static_cast<float>(halves[i]);
}

void ToLow(const float* from, int64_t size, tensorflow::DataType dtype, uint16_t* to) {
  if (dtype == tensorflow::DT_BFLOAT16) {
    ToBfloat16(from, size, to);
    return;
  }
  auto* halves = reinterpret_cast<Eigen::half*>(to);
  for (int64_t i = 0; i < size; ++i) halves[i] = static_cast<Eigen::half>(from[i]);
}

}  // namespace npu_precision
