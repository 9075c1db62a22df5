// The passes as a table, in the order in which they run. A new pass is a row here and its files in
// rewrite/ or fuse/. The option `rewrites` switches passes for speed or size, by the names of their
// rows. A pass with another purpose has an option of its own name.
#ifndef NPU_PRECISION_GRAPH_PASSES_PASS_TABLE_H_
#define NPU_PRECISION_GRAPH_PASSES_PASS_TABLE_H_

#include <string>
#include <vector>

#include "graph_passes/rewrite/pass_state.h"

namespace npu_precision {

// The purpose of a switchable pass.
enum class Switch {
  kNone,        // not switchable: the pass always runs
  kForSpeed,    // on for the host; only in modes that lower for speed
  kForSize,     // off, except for offline conversions
  kForNetwork,  // off; only in modes that lower for speed
  kEmulation,   // off; changes only dtypes
};

struct Pass {
  const char* name;
  const char* summary;  // what it does, a sentence
  const char* because;  // why it runs at this place
  Switch purpose;
  bool in_place;  // works on a copy of the graph that the pipeline owns, and may edit it
  // Whether the pass has anything to do in this mode. The driver checks whether it is on.
  bool (*when)(const PassState& state);
  // Sets `changed` to whether the pass changed the graph. Only errors of decide are the user's;
  // errors of other passes are ours. nullptr for a pass over the graph and its library at once:
  // only an offline rewrite has it, and runs it after the others have run over the graph and each
  // function.
  tensorflow::Status (*run)(PassState* state, bool* changed);
};

const std::vector<Pass>& Passes();

// "", "speed", "size", "network" or "emulation".
std::string PurposeName(Switch purpose);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_PASS_TABLE_H_
