#include "cc/tensor_counts.h"

#include <algorithm>

namespace npu_precision {

void TensorStatistics::Add(const TensorStatistics& other) {
  sum += other.sum;
  squares += other.squares;
  magnitudes += other.magnitudes;
  least = std::min(least, other.least);
  most = std::max(most, other.most);
}

Fault TensorCounts::Worst() const {
  if (nans > 0) return Fault::kNan;
  if (infinities > 0) return Fault::kInfinity;
  return over > 0 ? Fault::kOverflow : Fault::kNone;
}

void TensorCounts::Add(const TensorCounts& other, long long iteration) {
  largest = std::max(largest, other.largest);
  elements += other.elements;
  zeros += other.zeros;
  infinities += other.infinities;
  nans += other.nans;
  over += other.over;
  under += other.under;
  statistics.Add(other.statistics);
  const Fault worst = other.Worst();
  if (worst == Fault::kNone) return;
  if (first_iteration < 0 || iteration < first_iteration) {
    first_iteration = iteration;
    fault = worst;
  } else if (iteration == first_iteration) {
    fault = std::max(fault, worst);
  }
}

}  // namespace npu_precision
