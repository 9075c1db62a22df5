#include "cc/warn_once.h"

#include <mutex>
#include <set>

#include "tensorflow/core/platform/logging.h"

namespace npu_precision {

void WarnOnce(const std::string& message) {
  static std::mutex mutex;
  static auto* shown = new std::set<std::string>();
  const std::lock_guard<std::mutex> lock(mutex);
  if (shown->insert(message).second) LOG(WARNING) << "npu_precision: " << message;
}

}  // namespace npu_precision
