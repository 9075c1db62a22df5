#ifndef NPU_PRECISION_CC_EMBEDDED_CONFIGS_H_
#define NPU_PRECISION_CC_EMBEDDED_CONFIGS_H_

#include <cstddef>
#include <vector>

namespace npu_precision {

// One JSON file of configs/, compiled into the library. So the library is a single file, which can
// be copied, and never reads lists of another version.
struct EmbeddedFile {
  const char* path;  // Relative to configs/, with '/': "host/cpu/elementwise.json".
  const char* text;  // The file's bytes, followed by a NUL that `size` does not count.
  size_t size;
};

// Every *.json file under configs/, sorted by path. Written by cc/embed_configs.py at build time.
const std::vector<EmbeddedFile>& EmbeddedConfigs();

}  // namespace npu_precision

#endif  // NPU_PRECISION_CC_EMBEDDED_CONFIGS_H_
