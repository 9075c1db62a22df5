// Counts the nodes that the optimizer has lowered in this process, for a warning if there are none.
#ifndef NPU_PRECISION_CC_LOWERED_SO_FAR_H_
#define NPU_PRECISION_CC_LOWERED_SO_FAR_H_

#include <cstdint>
#include <string>
#include <vector>

#include "graph_passes/counts.h"
#include "graph_passes/ledger.h"

namespace npu_precision {

struct LoweredSoFar {
  // Float nodes of the graphs whose mode lowers for speed, and how many of them were lowered.
  int64_t float_nodes = 0, lowered = 0;
};

// Adds the counts of a graph whose mode lowers for speed.
void CountLowered(const Ledger& ledger);
LoweredSoFar GetLoweredSoFar();

// Adds the counts of a session's graph, and warns once the mode is certain to lower nothing.
void CountInSession(const std::string& mode, const Counts& counts);
// The lines about modes that have lowered nothing in sessions, without those that were warned of.
std::vector<std::string> IdleModes();

}  // namespace npu_precision

#endif  // NPU_PRECISION_CC_LOWERED_SO_FAR_H_
