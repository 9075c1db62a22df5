// Counts the nodes that the optimizer has lowered in this process, for a warning if there are none.
#ifndef NPU_PRECISION_CC_LOWERED_SO_FAR_H_
#define NPU_PRECISION_CC_LOWERED_SO_FAR_H_

#include <cstdint>

#include "graph_passes/ledger.h"

namespace npu_precision {

struct LoweredSoFar {
  // Float nodes of the graphs whose mode lowers for speed, and how many of them were lowered.
  int64_t float_nodes = 0, lowered = 0;
};

// Adds the counts of a graph whose mode lowers for speed.
void CountLowered(const Ledger& ledger);
LoweredSoFar GetLoweredSoFar();

}  // namespace npu_precision

#endif  // NPU_PRECISION_CC_LOWERED_SO_FAR_H_
