// The ledger entry of a change to a node beyond its dtype.
#ifndef NPU_PRECISION_GRAPH_PASSES_REWRITE_REWRITE_ENTRY_H_
#define NPU_PRECISION_GRAPH_PASSES_REWRITE_REWRITE_ENTRY_H_

#include <string>

namespace npu_precision {

struct RewriteEntry {
  std::string by;  // the option that asks for it, "fold_batch_norms"
  std::string node;
  std::string before, after;  // "FusedBatchNormV3", "BiasAdd"
};

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_REWRITE_REWRITE_ENTRY_H_
