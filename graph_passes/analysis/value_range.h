// An interval that holds every value of a tensor, and its arithmetic. NaN is in no interval: a
// range is about the other values.
#ifndef NPU_PRECISION_GRAPH_PASSES_ANALYSIS_VALUE_RANGE_H_
#define NPU_PRECISION_GRAPH_PASSES_ANALYSIS_VALUE_RANGE_H_

#include <algorithm>
#include <cmath>
#include <limits>

namespace npu_precision {

// By default all numbers: nothing is known.
struct ValueRange {
  static constexpr double kInfinity = std::numeric_limits<double>::infinity();

  double low = -kInfinity;
  double high = kInfinity;

  static ValueRange Of(double value) { return {value, value}; }
  // The range of a tensor that no node has computed yet. Joined with another range, it yields the
  // other range.
  static ValueRange Nothing() { return {kInfinity, -kInfinity}; }

  bool IsNothing() const { return low > high; }
  bool IsUnknown() const { return low == -kInfinity && high == kInfinity; }
  bool IsPoint() const { return low == high; }
  // The largest magnitude. Infinite if a side is unknown.
  double Magnitude() const { return std::max(std::fabs(low), std::fabs(high)); }

  bool operator==(const ValueRange& other) const { return low == other.low && high == other.high; }
  bool operator!=(const ValueRange& other) const { return !(*this == other); }
};

inline ValueRange Join(const ValueRange& a, const ValueRange& b) {
  return {std::min(a.low, b.low), std::max(a.high, b.high)};
}

// The functions below take two values, one from each range. If an end has no limit, such as
// infinity minus infinity, the result is unknown.
ValueRange Plus(const ValueRange& a, const ValueRange& b);
ValueRange Minus(const ValueRange& a, const ValueRange& b);
ValueRange Times(const ValueRange& a, const ValueRange& b);
// Unknown if `b` may be zero.
ValueRange DividedBy(const ValueRange& a, const ValueRange& b);
ValueRange Larger(const ValueRange& a, const ValueRange& b);
ValueRange Smaller(const ValueRange& a, const ValueRange& b);
ValueRange SquareOf(const ValueRange& a);
ValueRange AbsOf(const ValueRange& a);

// The range of a function that never falls.
template <typename Function>
ValueRange Rising(const ValueRange& a, const Function& function) {
  const ValueRange result = {function(a.low), function(a.high)};
  return std::isnan(result.low) || std::isnan(result.high) ? ValueRange() : result;
}

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_ANALYSIS_VALUE_RANGE_H_
