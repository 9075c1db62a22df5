#include "cc/sum_blocks.h"

#include <algorithm>
#include <cstring>

#include "cc/low_blocks.h"

namespace npu_precision {
namespace {

// Of sums that stay in the first-level cache until all terms are added.
constexpr int64_t kBlock = 512;

NPU_PRECISION_VECTORIZED
void Add(const float* __restrict from, int64_t size, float* __restrict to) {
  for (int64_t i = 0; i < size; ++i) to[i] += from[i];
}

NPU_PRECISION_VECTORIZED
void AddBfloat16(const uint16_t* __restrict from, int64_t size, float* __restrict to) {
  for (int64_t i = 0; i < size; ++i) {
    const uint32_t bits = static_cast<uint32_t>(from[i]) << 16;
    float value;
    std::memcpy(&value, &bits, sizeof(value));
    to[i] += value;
  }
}

NPU_PRECISION_VECTORIZED
void AddBfloat16Rows(const uint16_t* __restrict from, int64_t rows, int64_t stride, int64_t size,
                     float* __restrict to) {
  for (int64_t row = 0; row < rows; ++row) {
    const uint16_t* __restrict here = from + row * stride;
    for (int64_t i = 0; i < size; ++i) {
      const uint32_t bits = static_cast<uint32_t>(here[i]) << 16;
      float value;
      std::memcpy(&value, &bits, sizeof(value));
      to[i] += value;
    }
  }
}

// `size` is at most kBlock.
void AddHalf(const uint16_t* from, int64_t size, float* to) {
  float block[kBlock];
  FromLow(from, size, tensorflow::DT_HALF, block);
  Add(block, size, to);
}

// Adds the elements from `at`, or, for the first term, copies them.
void Take(const SumTerm& term, int64_t at, int64_t size, bool is_first, float* to) {
  const auto* const floats = reinterpret_cast<const float*>(term.data);
  const auto* const low = reinterpret_cast<const uint16_t*>(term.data);
  while (size > 0) {
    const int64_t phase = at % term.period;
    const int64_t count = std::min(size, term.period - phase);
    if (term.dtype == tensorflow::DT_FLOAT) {
      if (is_first) {
        std::copy_n(floats + phase, count, to);
      } else {
        Add(floats + phase, count, to);
      }
    } else if (is_first) {
      FromLow(low + phase, count, term.dtype, to);
    } else if (term.dtype == tensorflow::DT_BFLOAT16) {
      AddBfloat16(low + phase, count, to);
    } else {
      AddHalf(low + phase, count, to);
    }
    at += count;
    to += count;
    size -= count;
  }
}

}  // namespace

void AddTerms(const std::vector<SumTerm>& terms, int64_t begin, int64_t end, float* to) {
  float block[kBlock];
  for (int64_t at = begin; at < end; at += kBlock) {
    const int64_t size = std::min(kBlock, end - at);
    for (size_t k = 0; k < terms.size(); ++k) Take(terms[k], at, size, k == 0, block);
    std::copy_n(block, size, to + at);
  }
}

void AddRows(const LowRows& rows, int64_t begin, int64_t end, int64_t column, int64_t size,
             float* sums) {
  const uint16_t* from = rows.data + begin * rows.columns + column;
  if (rows.dtype == tensorflow::DT_BFLOAT16) {
    AddBfloat16Rows(from, end - begin, rows.columns, size, sums);
    return;
  }
  for (int64_t row = begin; row < end; ++row, from += rows.columns) {
    for (int64_t i = 0; i < size; i += kBlock) {
      AddHalf(from + i, std::min(kBlock, size - i), sums + i);
    }
  }
}

}  // namespace npu_precision
