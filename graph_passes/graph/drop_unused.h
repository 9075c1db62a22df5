// Removes nodes that an earlier run inserted and that have no consumer after this run's changes.
#ifndef NPU_PRECISION_GRAPH_PASSES_GRAPH_DROP_UNUSED_H_
#define NPU_PRECISION_GRAPH_PASSES_GRAPH_DROP_UNUSED_H_

#include <set>
#include <string>

#include "tensorflow/core/framework/graph.pb.h"

namespace npu_precision {

// Nodes in `preserved` stay.
void DropUnused(const std::set<std::string>& preserved, tensorflow::GraphDef* graph);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_GRAPH_DROP_UNUSED_H_
