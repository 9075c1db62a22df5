// The op types that TensorFlow or Ascend knows, and suggestions for unknown names.
#ifndef NPU_PRECISION_GRAPH_PASSES_LISTS_KNOWN_OPS_H_
#define NPU_PRECISION_GRAPH_PASSES_LISTS_KNOWN_OPS_H_

#include <string>

#include "graph_passes/lists/ir_names.h"

namespace npu_precision {

// Whether `name` is an op type of this TensorFlow, or one of Ascend's.
bool IsKnownOp(const std::string& name, const IrNames& ir_names);

// Whether `name` is an op type of Ascend without a counterpart in this TensorFlow.
bool IsAscendsAlone(const std::string& name, const IrNames& ir_names);

// For an op of Ascend that several ops of TensorFlow compute: "; here it is several ops: ...", with
// the ops to list instead. Otherwise "".
std::string SeveralOps(const std::string& name);

// The suggestion for a name that no op has.
struct OpGuess {
  // "; did you mean 'x'?", or "".
  std::string did_you_mean;
  // The known name, if the given one differs from it by a letter or in case. Empty otherwise, and
  // also if the names differ in a number, which may be a version or a number of dimensions.
  std::string meant;
};

// Returns the suggestion for `name`. Each name is looked up once in a process, with the first
// `ir_names`.
OpGuess GuessOp(const std::string& name, const IrNames& ir_names);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_LISTS_KNOWN_OPS_H_
