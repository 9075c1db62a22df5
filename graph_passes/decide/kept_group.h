// A type group that a rule keeps in float32.
#ifndef NPU_PRECISION_GRAPH_PASSES_DECIDE_KEPT_GROUP_H_
#define NPU_PRECISION_GRAPH_PASSES_DECIDE_KEPT_GROUP_H_

#include "graph_passes/decide/decision.h"

namespace npu_precision {

// A type group, by the view's group numbers.
struct KeptGroup {
  int group;
  Reason reason;
  int cause = -1;  // node id, or -1
};

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_DECIDE_KEPT_GROUP_H_
