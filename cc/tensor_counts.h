// What a flight recorder counts in a tensor.
#ifndef NPU_PRECISION_CC_TENSOR_COUNTS_H_
#define NPU_PRECISION_CC_TENSOR_COUNTS_H_

#include <limits>

namespace npu_precision {

enum class Fault { kNone = 0, kOverflow = 1, kInfinity = 2, kNan = 3 };

// Of the finite values.
struct TensorStatistics {
  double sum = 0, squares = 0, magnitudes = 0;
  float least = std::numeric_limits<float>::infinity();
  float most = -std::numeric_limits<float>::infinity();

  bool IsEmpty() const { return least > most; }
  void Add(const TensorStatistics& other);
};

// The counts of a tensor in one step, or in all iterations of its loop.
struct TensorCounts {
  // The largest finite magnitude.
  float largest = 0;
  long long elements = 0, zeros = 0, infinities = 0, nans = 0;
  // `over`: finite values that the low type would make infinite. `under`: values below its normal
  // numbers, but not zero.
  long long over = 0, under = 0;
  // The first iteration in which a value was infinite, NaN or over, or -1; and the worst kind of
  // value in it.
  long long first_iteration = -1;
  Fault fault = Fault::kNone;
  TensorStatistics statistics;  // if they are asked for

  long long Finite() const { return elements - infinities - nans; }
  Fault Worst() const;
  void Add(const TensorCounts& other, long long iteration);
};

}  // namespace npu_precision

#endif  // NPU_PRECISION_CC_TENSOR_COUNTS_H_
