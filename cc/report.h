// One graph's ledger file.
#ifndef NPU_PRECISION_CC_REPORT_H_
#define NPU_PRECISION_CC_REPORT_H_

#include <string>

#include "graph_passes/ledger.h"

namespace npu_precision {

class Report {
 public:
  // Writes the ledger into `folder`, made if need be, under a name that no other file there has.
  // A later call replaces this report's own file: Grappler's rounds are one story.
  tensorflow::Status Write(const std::string& folder, const Ledger& ledger);

  const std::string& path() const { return path_; }  // "" before the first Write

 private:
  std::string path_;
};

}  // namespace npu_precision

#endif  // NPU_PRECISION_CC_REPORT_H_
