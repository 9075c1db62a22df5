// The ledger entry of an all-reduce.
#ifndef NPU_PRECISION_GRAPH_PASSES_REWRITE_COLLECTIVE_ENTRY_H_
#define NPU_PRECISION_GRAPH_PASSES_REWRITE_COLLECTIVE_ENTRY_H_

#include <cstdint>
#include <string>

namespace npu_precision {

struct CollectiveEntry {
  std::string node, op;
  std::string reason;  // see CollectiveReasonName
  int tensors = 0, lowered = 0;
  // The bytes that one worker adds to the sum; kUnknownElements (-1) if a shape is not known.
  int64_t bytes_before = 0, bytes_after = 0;
};

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_REWRITE_COLLECTIVE_ENTRY_H_
