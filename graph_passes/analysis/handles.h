// Tensors kept behind a handle: the elements of a TensorArray, a TensorList or a Stack.
//
// All ops on one handle must agree on the dtype of its elements. No edge shows that dtype: a
// mismatch fails when the graph runs. So the handle is traced through control flow, gradients, and
// tensors of several handles, as TensorListPushBackBatch reads them; and the type groups of its ops
// change together or not at all.
#ifndef NPU_PRECISION_GRAPH_PASSES_ANALYSIS_HANDLES_H_
#define NPU_PRECISION_GRAPH_PASSES_ANALYSIS_HANDLES_H_

#include <set>
#include <string>
#include <vector>

#include "graph_passes/graph/graph_view.h"

namespace npu_precision {

struct Handle {
  std::vector<int> groups;  // the element dtypes of its ops, by the view's group numbers
  // Some op that this graph does not show, or that this file does not know, may use it: it is an
  // argument or a result, goes into a function, is itself an element, is fetched or fed.
  bool leaves_graph = false;
  // Some op on it computes with the elements: lists are added, or writes to a gradient's array are.
  bool adds = false;
};

// One for each handle that some op with an element dtype uses. `fetched` and `fed` are names of
// nodes.
std::vector<Handle> FindHandles(const GraphView& view, const std::set<std::string>& fetched,
                                const std::set<std::string>& fed);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_ANALYSIS_HANDLES_H_
