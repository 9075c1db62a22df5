#include "cc/log_once.h"

#include <mutex>
#include <set>

#include "tensorflow/core/platform/logging.h"

namespace npu_precision {

namespace {

// Whether the process has not logged this message yet.
bool IsNew(const std::string& message) {
  static std::mutex mutex;
  static auto* logged = new std::set<std::string>();
  const std::lock_guard<std::mutex> lock(mutex);
  return logged->insert(message).second;
}

}  // namespace

void WarnOnce(const std::string& message) {
  if (IsNew(message)) LOG(WARNING) << "npu_precision: " << message;
}

void NeverWarn(const std::string& message) { IsNew(message); }

void InformOnce(const std::string& message) {
  if (IsNew(message)) LOG(INFO) << "npu_precision: " << message;
}

}  // namespace npu_precision
