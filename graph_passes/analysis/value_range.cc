#include "graph_passes/analysis/value_range.h"

namespace npu_precision {
namespace {

ValueRange Checked(double low, double high) {
  return std::isnan(low) || std::isnan(high) ? ValueRange() : ValueRange{low, high};
}

// Multiplies bounds, not values: a factor that may be zero makes the product zero, even if the
// other bound is infinite.
double Product(double a, double b) { return a == 0 || b == 0 ? 0 : a * b; }

}  // namespace

constexpr double ValueRange::kInfinity;

ValueRange Plus(const ValueRange& a, const ValueRange& b) {
  return Checked(a.low + b.low, a.high + b.high);
}

ValueRange Minus(const ValueRange& a, const ValueRange& b) {
  return Checked(a.low - b.high, a.high - b.low);
}

ValueRange Times(const ValueRange& a, const ValueRange& b) {
  const auto bounds = std::minmax({Product(a.low, b.low), Product(a.low, b.high),
                                   Product(a.high, b.low), Product(a.high, b.high)});
  return Checked(bounds.first, bounds.second);
}

ValueRange DividedBy(const ValueRange& a, const ValueRange& b) {
  if (b.low <= 0 && b.high >= 0) return ValueRange();
  return Times(a, Checked(1 / b.high, 1 / b.low));
}

ValueRange Larger(const ValueRange& a, const ValueRange& b) {
  return {std::max(a.low, b.low), std::max(a.high, b.high)};
}

ValueRange Smaller(const ValueRange& a, const ValueRange& b) {
  return {std::min(a.low, b.low), std::min(a.high, b.high)};
}

ValueRange SquareOf(const ValueRange& a) {
  const ValueRange magnitude = AbsOf(a);
  return {magnitude.low * magnitude.low, magnitude.high * magnitude.high};
}

ValueRange AbsOf(const ValueRange& a) {
  const double smallest =
      a.low <= 0 && a.high >= 0 ? 0 : std::min(std::fabs(a.low), std::fabs(a.high));
  return {smallest, a.Magnitude()};
}

}  // namespace npu_precision
