// The op types that TensorFlow or Ascend knows, and guesses about names that neither knows.
#ifndef NPU_PRECISION_GRAPH_PASSES_LISTS_KNOWN_OPS_H_
#define NPU_PRECISION_GRAPH_PASSES_LISTS_KNOWN_OPS_H_

#include <string>

#include "graph_passes/lists/ir_names.h"

namespace npu_precision {

// Whether `name` is an op type of this TensorFlow, or one of Ascend's.
bool IsKnownOp(const std::string& name, const IrNames& ir_names);

// Whether `name` is an op type of Ascend that no op type of this TensorFlow corresponds to.
bool IsAscendsAlone(const std::string& name, const IrNames& ir_names);

// Of an op of Ascend whose values several ops of TensorFlow compute: "; here it is several ops:
// ...", with what can be listed instead. Else "".
std::string SeveralOps(const std::string& name);

// What is said of a name that no op has.
struct OpGuess {
  // "; did you mean 'x'?", or "".
  std::string did_you_mean;
  // For a name that differs from a known one by a letter or in case: the known one. Else empty,
  // also where the names differ in a number, which may be a version or a number of dimensions.
  std::string meant;
};

// The guess about `name`. Each name is looked for once in a process, with the first `ir_names`.
OpGuess GuessOp(const std::string& name, const IrNames& ir_names);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_LISTS_KNOWN_OPS_H_
