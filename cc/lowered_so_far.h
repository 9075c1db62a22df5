// What the optimizer has lowered in this process, for a warning when it was nothing.
#ifndef NPU_PRECISION_CC_LOWERED_SO_FAR_H_
#define NPU_PRECISION_CC_LOWERED_SO_FAR_H_

#include <cstdint>

#include "graph_passes/ledger.h"

namespace npu_precision {

struct LoweredSoFar {
  // Float nodes of the graphs whose mode lowers as much as it may, and those of them lowered.
  int64_t float_nodes = 0, lowered = 0;
};

// Adds a graph whose mode lowers as much as it may.
void CountLowered(const Ledger& ledger);
LoweredSoFar GetLoweredSoFar();

}  // namespace npu_precision

#endif  // NPU_PRECISION_CC_LOWERED_SO_FAR_H_
