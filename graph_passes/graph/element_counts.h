// The numbers of elements of tensors, as far as the caller of the passes knows their shapes.
#ifndef NPU_PRECISION_GRAPH_PASSES_GRAPH_ELEMENT_COUNTS_H_
#define NPU_PRECISION_GRAPH_PASSES_GRAPH_ELEMENT_COUNTS_H_

#include <cstdint>
#include <functional>
#include <string>

namespace npu_precision {

constexpr int64_t kUnknownElements = -1;

// The number of elements of an output of the node with that name. The first call may be slow. Empty
// if no shape is known.
using ElementCounts = std::function<int64_t(const std::string& node, int port)>;

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_GRAPH_ELEMENT_COUNTS_H_
