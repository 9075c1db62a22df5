// The rules of deciding as a table, in the order in which they run. A new rule is a row here and
// its files in decide/.
#ifndef NPU_PRECISION_GRAPH_PASSES_DECIDE_RULE_TABLE_H_
#define NPU_PRECISION_GRAPH_PASSES_DECIDE_RULE_TABLE_H_

#include <vector>

#include "graph_passes/decide/decide_state.h"
#include "tensorflow/core/lib/core/status.h"

namespace npu_precision {

struct DecideRule {
  const char* name;
  const char* because;                     // why the rule runs at this place
  bool (*when)(const DecideState& state);  // whether the rule applies in this mode
  // Returns only errors of the user: a target that lacks a dtype, a mixlist that contradicts
  // itself.
  tensorflow::Status (*run)(DecideState* state);
};

const std::vector<DecideRule>& DecideRules();

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_DECIDE_RULE_TABLE_H_
