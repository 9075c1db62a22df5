#include "cc/report.h"

#include <mutex>

#include "absl/strings/str_cat.h"
#include "cc/files.h"
#include "tensorflow/core/util/device_name_utils.h"

namespace npu_precision {

std::string WorkerSuffix(const tensorflow::GraphDef& graph) {
  std::string of_server;
  for (const tensorflow::NodeDef& node : graph.node()) {
    tensorflow::DeviceNameUtils::ParsedName name;
    if (node.device().empty()) continue;
    if (!tensorflow::DeviceNameUtils::ParseFullName(node.device(), &name)) continue;
    if (!name.has_job || !name.has_task) continue;
    const std::string suffix =
        name.job == "localhost" ? "" : absl::StrCat("-", name.job, name.task);
    // A worker's graph has nodes on parameter servers, which run no graph of their own.
    if (name.job != "ps") return suffix;
    if (of_server.empty()) of_server = suffix;
  }
  return of_server;
}

tensorflow::Status WriteReport(const std::string& folder, const std::string& worker,
                               const Ledger& ledger, std::string* path) {
  static std::mutex mutex;  // two threads at once would share a temporary name
  const std::lock_guard<std::mutex> lock(mutex);
  return WriteNewJson("report_dir", folder, FileStem(ledger.graph) + worker, LedgerJson(ledger),
                      path);
}

}  // namespace npu_precision
