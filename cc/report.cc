#include "cc/report.h"

#include <mutex>

#include "absl/strings/ascii.h"
#include "cc/files.h"
#include "tensorflow/core/lib/core/errors.h"

namespace npu_precision {
namespace {

constexpr size_t kLongestStem = 100;

std::string Stem(const std::string& graph) {
  std::string stem;
  for (const char c : graph) {
    stem.push_back(absl::ascii_isalnum(static_cast<unsigned char>(c)) ? c : '_');
  }
  if (stem.empty()) return "graph";
  return stem.substr(0, kLongestStem);
}

}  // namespace

tensorflow::Status WriteReport(const std::string& folder, const Ledger& ledger, std::string* path) {
  static std::mutex mutex;  // two threads at once would share a temporary name
  const std::lock_guard<std::mutex> lock(mutex);
  return WriteNewJson("report_dir", folder, Stem(ledger.graph), LedgerJson(ledger), path);
}

}  // namespace npu_precision
