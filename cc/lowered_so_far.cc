#include "cc/lowered_so_far.h"

#include <atomic>

namespace npu_precision {

namespace {

std::atomic<int64_t> float_nodes{0}, lowered{0};

}  // namespace

void CountLowered(const Ledger& ledger) {
  float_nodes += ledger.counts.float_nodes;
  lowered += ledger.counts.lowered;
}

LoweredSoFar GetLoweredSoFar() {
  LoweredSoFar so_far;
  so_far.float_nodes = float_nodes;
  so_far.lowered = lowered;
  return so_far;
}

}  // namespace npu_precision
