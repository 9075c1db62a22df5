// The ledger entries of a change to a node beyond its dtype, and of one that was not made.
#ifndef NPU_PRECISION_GRAPH_PASSES_REWRITE_REWRITE_ENTRY_H_
#define NPU_PRECISION_GRAPH_PASSES_REWRITE_REWRITE_ENTRY_H_

#include <string>

namespace npu_precision {

struct RewriteEntry {
  std::string by;  // the option that asks for it, "fold_batch_norms"
  std::string node;
  std::string before, after;  // "FusedBatchNormV3", "BiasAdd"
};

struct MissedRewrite {
  std::string by;
  std::string node;  // of what was looked for
  std::string why;   // a clause: "its gradient has another form"
};

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_REWRITE_REWRITE_ENTRY_H_
