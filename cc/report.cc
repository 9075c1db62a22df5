#include "cc/report.h"

#include <cstdio>
#include <mutex>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "cc/files.h"
#include "tensorflow/core/lib/core/errors.h"
#include "tensorflow/core/lib/io/path.h"
#include "tensorflow/core/platform/env.h"

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

// The first of STEM-0001.json, STEM-0002.json, ... that does not exist.
std::string FreePath(const std::string& folder, const std::string& graph) {
  for (int i = 1;; ++i) {
    char number[16];
    std::snprintf(number, sizeof(number), "-%04d", i);
    const std::string path =
        tensorflow::io::JoinPath(folder, absl::StrCat(Stem(graph), number, ".json"));
    if (!tensorflow::Env::Default()->FileExists(path).ok()) return path;
  }
}

}  // namespace

tensorflow::Status Report::Write(const std::string& folder, const Ledger& ledger) {
  static std::mutex mutex;  // two graphs at once must not choose the same name
  const std::lock_guard<std::mutex> lock(mutex);
  TF_RETURN_IF_ERROR(MakeFolder("report_dir", folder));
  if (path_.empty()) path_ = FreePath(folder, ledger.graph);
  return WriteFile(path_, LedgerJson(ledger));
}

}  // namespace npu_precision
