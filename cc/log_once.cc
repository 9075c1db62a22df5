#include "cc/log_once.h"

#include <mutex>
#include <set>

#include "tensorflow/core/platform/logging.h"

namespace npu_precision {

namespace {

// Whether nobody has said it yet.
bool IsNew(const std::string& message) {
  static std::mutex mutex;
  static auto* said = new std::set<std::string>();
  const std::lock_guard<std::mutex> lock(mutex);
  return said->insert(message).second;
}

}  // namespace

void WarnOnce(const std::string& message) {
  if (IsNew(message)) LOG(WARNING) << "npu_precision: " << message;
}

void InformOnce(const std::string& message) {
  if (IsNew(message)) LOG(INFO) << "npu_precision: " << message;
}

}  // namespace npu_precision
