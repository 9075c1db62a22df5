#include "cc/report.h"

#include <unistd.h>

#include <mutex>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "cc/files.h"
#include "tensorflow/core/lib/core/errors.h"
#include "tensorflow/core/lib/io/path.h"
#include "tensorflow/core/platform/env.h"
#include "tensorflow/core/util/device_name_utils.h"

namespace npu_precision {
namespace {

// Longer values of constants are weights, which a report does not need.
constexpr size_t kLongestValue = 256;

// The nodes, without weights, and the graph's versions.
std::string Outline(const tensorflow::GraphDef& graph) {
  tensorflow::GraphDef outline;
  *outline.mutable_versions() = graph.versions();
  for (const tensorflow::NodeDef& node : graph.node()) {
    tensorflow::NodeDef* copy = outline.add_node();
    copy->set_name(node.name());
    copy->set_op(node.op());
    copy->set_device(node.device());
    *copy->mutable_input() = node.input();
    for (const auto& attribute : node.attr()) {
      if (attribute.second.ByteSizeLong() > kLongestValue && attribute.second.has_tensor())
        continue;
      (*copy->mutable_attr())[attribute.first] = attribute.second;
    }
  }
  return outline.SerializeAsString();
}

}  // namespace

std::string ProcessName() {
  static const tensorflow::uint64 start = tensorflow::Env::Default()->NowMicros();
  return absl::StrCat(getpid(), "-", start);
}

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
                               const Ledger& ledger, const tensorflow::GraphDef& before,
                               const tensorflow::GraphDef& after, std::string* path) {
  static std::mutex mutex;  // two threads at once would share a temporary name
  const std::lock_guard<std::mutex> lock(mutex);
  constexpr char kName[] = "report_dir";
  TF_RETURN_IF_ERROR(
      WriteNewJson(kName, folder, FileStem(ledger.graph) + worker, LedgerJson(ledger), path));
  const std::string name(tensorflow::io::Basename(*path));
  const std::string stem(absl::StripSuffix(name, ".json"));
  TF_RETURN_IF_ERROR(WriteFile(kName, folder, stem + ".before.pb", Outline(before)));
  return WriteFile(kName, folder, stem + ".after.pb", Outline(after));
}

}  // namespace npu_precision
