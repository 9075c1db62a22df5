// What in a mixlist will surprise its author.
#ifndef NPU_PRECISION_GRAPH_PASSES_MIXLIST_WARNINGS_H_
#define NPU_PRECISION_GRAPH_PASSES_MIXLIST_WARNINGS_H_

#include <string>
#include <vector>

#include "graph_passes/graph_view.h"
#include "graph_passes/op_lists.h"

namespace npu_precision {

// Entries that name no op type of this TensorFlow: unknown names, each with a did-you-mean, and
// Ascend's ops that nothing here corresponds to.
std::vector<std::string> UnknownOpWarnings(const OpLists& lists, const IrNames& ir_names);

// Entries that name an op type or a pattern but match no node of the graph. Empty for a graph in
// which nothing was lowered and no op multiplies matrices or convolves: a list is not written for
// an initializer or a small function.
std::vector<std::string> UnmatchedWarnings(const OpLists& lists, const GraphView& view,
                                           int lowered);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_MIXLIST_WARNINGS_H_
