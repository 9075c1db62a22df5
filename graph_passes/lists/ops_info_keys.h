// The keys that an entry of an ops-info file in CANN's format may have.
#ifndef NPU_PRECISION_GRAPH_PASSES_LISTS_OPS_INFO_KEYS_H_
#define NPU_PRECISION_GRAPH_PASSES_LISTS_OPS_INFO_KEYS_H_

#include <string>

namespace npu_precision {

constexpr char kPrecisionReduce[] = "precision_reduce";

// A key beside the op types of a file: why they are on their list, in words.
constexpr char kWhy[] = "why";

// The keys of an op's entry, or those of one of its inputs and outputs.
enum class KeysOf { kEntry, kArgument };

struct KeyVerdict {
  // CANN's format has the key. It may be about kernels and shapes, and have no effect here.
  bool is_known;
  // The key is probably a misspelling of one that decides lists or dtypes.
  bool may_matter;
  std::string text;
};

// Judges a key that this project does not read. It reads precision_reduce, inputN, outputN and
// dtype.
KeyVerdict JudgeKey(KeysOf keys, const std::string& key);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_LISTS_OPS_INFO_KEYS_H_
