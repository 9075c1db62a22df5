// One graph's ledger file.
#ifndef NPU_PRECISION_CC_REPORT_H_
#define NPU_PRECISION_CC_REPORT_H_

#include <string>

#include "graph_passes/ledger.h"

namespace npu_precision {

// Writes the ledger into `folder`, made if need be, under a name that no other file there has;
// `path` gets the file's.
tensorflow::Status WriteReport(const std::string& folder, const Ledger& ledger, std::string* path);

}  // namespace npu_precision

#endif  // NPU_PRECISION_CC_REPORT_H_
