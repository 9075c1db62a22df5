// Text from outside, made safe to show in a message.
#ifndef NPU_PRECISION_GRAPH_PASSES_GRAPH_QUOTED_H_
#define NPU_PRECISION_GRAPH_PASSES_GRAPH_QUOTED_H_

#include <string>

namespace npu_precision {

// `text` in single quotes, odd bytes escaped, long texts cut: safe to show whatever was read.
std::string Quoted(const std::string& text);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_GRAPH_QUOTED_H_
