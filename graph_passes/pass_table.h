// The passes as a table, in the order in which they run. A new pass is a row here and its files in
// rewrite/ or fuse/. What is for speed or size is switched by the option `rewrites`, by the name of
// its row; what has another purpose, by an option of that name.
#ifndef NPU_PRECISION_GRAPH_PASSES_PASS_TABLE_H_
#define NPU_PRECISION_GRAPH_PASSES_PASS_TABLE_H_

#include <string>
#include <vector>

#include "graph_passes/rewrite/pass_state.h"

namespace npu_precision {

// The purpose of a pass that can be switched.
enum class Switch {
  kNone,        // there is none: the pass always runs
  kForSpeed,    // on for the host; only in modes that lower for speed
  kForSize,     // off, but for offline conversions
  kForNetwork,  // off; only in modes that lower for speed
  kEmulation,   // off; changes no more than dtypes
};

struct Pass {
  const char* name;
  const char* summary;  // what it does, a sentence
  const char* because;  // why it stands where it stands
  Switch purpose;
  bool in_place;  // works on a copy of the graph that is the pipeline's own, and may edit it
  // Whether it has anything to do in this mode. The driver looks at whether it is on.
  bool (*when)(const PassState& state);
  // Sets `changed` to whether it changed the graph. Only the errors of decide are the user's; those
  // of other passes are ours. nullptr for a pass over the graph and its library at once, which only
  // an offline rewrite has: it runs when the others have run over the graph and each function.
  tensorflow::Status (*run)(PassState* state, bool* changed);
};

const std::vector<Pass>& Passes();

// "", "speed", "size", "network" or "emulation".
std::string PurposeName(Switch purpose);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_PASS_TABLE_H_
