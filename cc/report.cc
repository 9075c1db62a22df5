#include "cc/report.h"

#include <mutex>

#include "cc/files.h"

namespace npu_precision {
tensorflow::Status WriteReport(const std::string& folder, const Ledger& ledger, std::string* path) {
  static std::mutex mutex;  // two threads at once would share a temporary name
  const std::lock_guard<std::mutex> lock(mutex);
  return WriteNewJson("report_dir", folder, FileStem(ledger.graph), LedgerJson(ledger), path);
}

}  // namespace npu_precision
