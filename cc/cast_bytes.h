// How many bytes each Cast writes, where Grappler knows the shapes.
#ifndef NPU_PRECISION_CC_CAST_BYTES_H_
#define NPU_PRECISION_CC_CAST_BYTES_H_

#include "graph_passes/ledger.h"
#include "tensorflow/core/grappler/grappler_item.h"

namespace npu_precision {

// Fills LedgerCast::bytes. `optimized` is `item`'s graph after the rewrite.
void MeasureCasts(const tensorflow::grappler::GrapplerItem& item,
                  const tensorflow::GraphDef& optimized, Ledger* ledger);

}  // namespace npu_precision

#endif  // NPU_PRECISION_CC_CAST_BYTES_H_
