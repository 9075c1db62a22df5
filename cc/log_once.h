// Log lines that a process writes once.
#ifndef NPU_PRECISION_CC_LOG_ONCE_H_
#define NPU_PRECISION_CC_LOG_ONCE_H_

#include <string>

namespace npu_precision {

void WarnOnce(const std::string& message);
// Suppresses the message in this process, as if it had been logged.
void NeverWarn(const std::string& message);
void InformOnce(const std::string& message);

}  // namespace npu_precision

#endif  // NPU_PRECISION_CC_LOG_ONCE_H_
