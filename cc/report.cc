#include "cc/report.h"

#include <mutex>

#include "absl/strings/str_cat.h"
#include "cc/files.h"
#include "tensorflow/core/util/device_name_utils.h"

namespace npu_precision {

std::string WorkerSuffix(const tensorflow::GraphDef& graph) {
  for (const tensorflow::NodeDef& node : graph.node()) {
    tensorflow::DeviceNameUtils::ParsedName name;
    if (node.device().empty()) continue;
    if (!tensorflow::DeviceNameUtils::ParseFullName(node.device(), &name)) continue;
    if (!name.has_job || !name.has_task) continue;
    return name.job == "localhost" ? "" : absl::StrCat("-", name.job, name.task);
  }
  return "";
}

tensorflow::Status WriteReport(const std::string& folder, const std::string& worker,
                               const Ledger& ledger, std::string* path) {
  static std::mutex mutex;  // two threads at once would share a temporary name
  const std::lock_guard<std::mutex> lock(mutex);
  return WriteNewJson("report_dir", folder, FileStem(ledger.graph) + worker, LedgerJson(ledger),
                      path);
}

}  // namespace npu_precision
