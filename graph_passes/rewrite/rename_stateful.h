// Renames nodes with state whose dtype changes.
//
// A session caches the kernel of an op with state by the op's name. Another run of the session may
// fetch other tensors, and so decide another dtype for the op.
// Before: shuffle(float32) -> ^use. After: shuffle/npu_changed(float16) -> ^use.
//
// Refused: preserved nodes, because a Cast takes their name; nodes with the name mark, because only
// one graph is run.
#ifndef NPU_PRECISION_GRAPH_PASSES_REWRITE_RENAME_STATEFUL_H_
#define NPU_PRECISION_GRAPH_PASSES_REWRITE_RENAME_STATEFUL_H_

#include <set>
#include <string>
#include <unordered_map>

#include "graph_passes/rewrite/changed_graph.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace npu_precision {

// New names by old names. No other node has the new names.
using NewNames = std::unordered_map<std::string, std::string>;

NewNames RenameStateful(const std::set<std::string>& preserved, ChangedGraph* graph);

// Updates control inputs and colocations, which also contain node names.
void ReferToNewNames(const NewNames& new_names, tensorflow::GraphDef* graph);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_REWRITE_RENAME_STATEFUL_H_
