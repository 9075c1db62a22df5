// The inputs whose relative error an op magnifies, as configs/magnifiers.json lists them.
#ifndef NPU_PRECISION_GRAPH_PASSES_LISTS_MAGNIFIERS_H_
#define NPU_PRECISION_GRAPH_PASSES_LISTS_MAGNIFIERS_H_

#include <string>
#include <unordered_map>
#include <vector>

#include "tensorflow/core/lib/core/status.h"

namespace npu_precision {

// The condition under which the op does not magnify the error of an input.
enum class Unless : unsigned char {
  kNever,
  kAwayFromZero,
  kDivisorAwayFromZero,
  kSmallPower,
  kOneTurn
};

struct MagnifiedInput {
  int index;
  Unless unless;
};

// By op type.
using Magnifiers = std::unordered_map<std::string, std::vector<MagnifiedInput>>;

// Reads {"Rsqrt": {"input0": {"unless": "away_from_zero"}}, ...}.
tensorflow::Status ParseMagnifiers(const std::string& file, const std::string& text,
                                   Magnifiers* magnifiers);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_LISTS_MAGNIFIERS_H_
