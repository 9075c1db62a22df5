// One graph's ledger file.
#ifndef NPU_PRECISION_CC_REPORT_H_
#define NPU_PRECISION_CC_REPORT_H_

#include <string>

#include "graph_passes/ledger.h"

namespace npu_precision {

// Writes the ledger into `folder`, which is made if need be, under a new name. `path` gets the
// path.
tensorflow::Status WriteReport(const std::string& folder, const Ledger& ledger, std::string* path);

}  // namespace npu_precision

#endif  // NPU_PRECISION_CC_REPORT_H_
