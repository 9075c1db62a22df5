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
  kOneTurn,
  kBeyondOne,
  kYieldsNoInteger,
  kOneSelects
};

struct MagnifiedInput {
  int index = 0;
  Unless unless = Unless::kNever;
  // Products of so many terms or fewer count as elementwise.
  int terms = 0;
  // The input may be a whole number from a product, however many terms that has.
  bool whole = false;
};

// By op type.
using Magnifiers = std::unordered_map<std::string, std::vector<MagnifiedInput>>;

// Reads {"Sin": {"input0": {"unless": "one_turn", "terms": 16}}, ...}.
tensorflow::Status ParseMagnifiers(const std::string& file, const std::string& text,
                                   Magnifiers* magnifiers);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_LISTS_MAGNIFIERS_H_
