// Other names for nodes with state whose dtype changes.
//
// A session keeps the kernel of an op with state by the op's name. Another run of the session may
// fetch something else, and so decide otherwise about the op's dtype.
// Before: shuffle(float32) -> ^use. After: shuffle/npu_changed(float16) -> ^use.
//
// Refused: preserved nodes, since a Cast takes the name of these; nodes that carry the name mark,
// whose one graph is all that is run.
#ifndef NPU_PRECISION_GRAPH_PASSES_REWRITE_RENAME_STATEFUL_H_
#define NPU_PRECISION_GRAPH_PASSES_REWRITE_RENAME_STATEFUL_H_

#include <set>
#include <string>
#include <unordered_map>

#include "graph_passes/rewrite/changed_graph.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace npu_precision {

// New names, by the old ones, which no other node takes.
using NewNames = std::unordered_map<std::string, std::string>;

NewNames RenameStateful(const std::set<std::string>& preserved, ChangedGraph* graph);

// Writes new names into control inputs and colocations, which name nodes too.
void ReferToNewNames(const NewNames& new_names, tensorflow::GraphDef* graph);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_REWRITE_RENAME_STATEFUL_H_
