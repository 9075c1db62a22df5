// Finds tensors kept behind a handle: the elements of a TensorArray, a TensorList or a Stack.
//
// All ops on one handle must agree on the dtype of its elements. No edge shows that dtype: a
// mismatch fails only when the graph runs. So this analysis traces each handle through control
// flow, gradients, and ops on several handles, such as TensorListPushBackBatch. The type groups of
// the ops on a handle change together or not at all.
#ifndef NPU_PRECISION_GRAPH_PASSES_ANALYSIS_HANDLES_H_
#define NPU_PRECISION_GRAPH_PASSES_ANALYSIS_HANDLES_H_

#include <set>
#include <string>
#include <vector>

#include "graph_passes/graph/graph_view.h"

namespace npu_precision {

struct Handle {
  std::vector<int> groups;  // the element dtypes of its ops, by the view's group numbers
  // An op outside of this graph, or one that this file does not know, may use the handle: it is an
  // argument or a result, goes into a function, is itself an element, is fetched or fed.
  bool leaves_graph = false;
  // An op on the handle computes with the elements: it adds lists, or adds up writes to the
  // TensorArray of a gradient.
  bool adds = false;
};

// Returns an entry for each handle that an op with an element dtype uses. `fetched` and `fed` are
// names of nodes.
std::vector<Handle> FindHandles(const GraphView& view, const std::set<std::string>& fetched,
                                const std::set<std::string>& fed);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_ANALYSIS_HANDLES_H_
