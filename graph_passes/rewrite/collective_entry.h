// What became of an all-reduce, as the ledger tells it.
#ifndef NPU_PRECISION_GRAPH_PASSES_REWRITE_COLLECTIVE_ENTRY_H_
#define NPU_PRECISION_GRAPH_PASSES_REWRITE_COLLECTIVE_ENTRY_H_

#include <cstdint>
#include <string>

namespace npu_precision {

struct CollectiveEntry {
  std::string node, op;
  std::string reason;  // see CollectiveReasonName
  int tensors = 0, lowered = 0;
  // What one worker gives to the sum; kUnknownElements (-1) where a shape is not known.
  int64_t bytes_before = 0, bytes_after = 0;
};

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_REWRITE_COLLECTIVE_ENTRY_H_
