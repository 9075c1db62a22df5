// What the C functions for Python share.
#ifndef NPU_PRECISION_CC_C_API_H_
#define NPU_PRECISION_CC_C_API_H_

#include <cstdlib>
#include <cstring>
#include <string>

#define NPU_PRECISION_EXPORT extern "C" __attribute__((visibility("default")))

namespace npu_precision {

// A copy of the text, to be released with NpuPrecisionFree; nullptr if there is no memory.
inline char* NewString(const std::string& text) {
  char* copy = static_cast<char*>(std::malloc(text.size() + 1));
  if (copy != nullptr) std::memcpy(copy, text.c_str(), text.size() + 1);
  return copy;
}

}  // namespace npu_precision

#endif  // NPU_PRECISION_CC_C_API_H_
