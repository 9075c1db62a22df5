// Adds tensors of the low types and of float32 up in float32, in loops that the compiler
// vectorizes.
#ifndef NPU_PRECISION_CC_SUM_BLOCKS_H_
#define NPU_PRECISION_CC_SUM_BLOCKS_H_

#include <cstdint>
#include <vector>

#include "tensorflow/core/framework/types.pb.h"

namespace npu_precision {

// Elements of a term that take a cycle, for who divides the work among threads.
constexpr int64_t kElementsInCycle = 4;

struct SumTerm {
  const char* data;
  tensorflow::DataType dtype;  // float32, float16 or bfloat16
  int64_t period;              // the term repeats itself after so many elements
};

// Writes the elements of the sum from `begin` up to `end`, in the order of the terms. `to` is the
// whole sum, and may be the data of a term whose period is that of the sum.
void AddTerms(const std::vector<SumTerm>& terms, int64_t begin, int64_t end, float* to);

// A matrix of a low type.
struct LowRows {
  const uint16_t* data;
  tensorflow::DataType dtype;
  int64_t columns;
};

// Adds the elements of columns [column, column + size) in the rows from `begin` up to `end` to
// sums[0 .. size).
void AddRows(const LowRows& rows, int64_t begin, int64_t end, int64_t column, int64_t size,
             float* sums);

}  // namespace npu_precision

#endif  // NPU_PRECISION_CC_SUM_BLOCKS_H_
