// Makes text from outside safe to show in a message.
#ifndef NPU_PRECISION_GRAPH_PASSES_GRAPH_QUOTED_H_
#define NPU_PRECISION_GRAPH_PASSES_GRAPH_QUOTED_H_

#include <string>

namespace npu_precision {

// Returns `text` in single quotes, with unprintable bytes escaped and long texts cut.
std::string Quoted(const std::string& text);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_GRAPH_QUOTED_H_
