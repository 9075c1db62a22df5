// The passes as a table, in the order in which they run. To add a pass is to add a row, and its
// files in rewrite/: parameters, Python's options and the command take their switches from here.
#ifndef NPU_PRECISION_GRAPH_PASSES_PASS_TABLE_H_
#define NPU_PRECISION_GRAPH_PASSES_PASS_TABLE_H_

#include <string>
#include <vector>

#include "graph_passes/rewrite/pass_state.h"

namespace npu_precision {

// What the option of a pass is for.
enum class Switch {
  kNone,       // there is none: the pass always runs
  kForSpeed,   // on for the host; only in modes that lower for speed
  kForSize,    // off, but for offline conversions
  kEmulation,  // off; changes no more than dtypes
};

struct Pass {
  const char* name;
  const char* because;  // why it stands where it stands
  const char* option;   // the name of the option that switches it; "" where it always runs
  Switch purpose;
  bool in_place;  // works on a copy of the graph that is the pipeline's own, and may edit it
  // Whether it has anything to do in this mode; the option is the driver's to check.
  bool (*when)(const PassState& state);
  // Sets `changed` to whether the graph is another one now. An error is ours, not the user's, but
  // for decide's.
  tensorflow::Status (*run)(PassState* state, bool* changed);
};

const std::vector<Pass>& Passes();

// "", "speed", "size" or "emulation".
std::string PurposeName(Switch purpose);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_PASS_TABLE_H_
