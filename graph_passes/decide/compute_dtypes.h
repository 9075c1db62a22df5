// Decides which lowered nodes compute in float32, and where their values are rounded.
#ifndef NPU_PRECISION_GRAPH_PASSES_DECIDE_COMPUTE_DTYPES_H_
#define NPU_PRECISION_GRAPH_PASSES_DECIDE_COMPUTE_DTYPES_H_

#include <vector>

#include "graph_passes/decide/decide_context.h"
#include "graph_passes/graph/graph_view.h"

namespace npu_precision {

struct ComputeDtypes {
  std::vector<bool> in_float32;  // by group number: the group is low and becomes float32
  // By node id: other nodes that compute in float32 read the node's float32 outputs without
  // rounding. Either the outputs have values of the low type, or every reader is elementwise: an
  // accelerator's compiler would fuse it, and so round once, at the end.
  std::vector<bool> read_unrounded;
  // By node id: the outputs have values of the low type, whatever their dtype.
  std::vector<bool> is_exact;
};

// Decides for a graph whose nodes carry the marks of their decisions.
//
// On a CPU that emulates float16, every node lowered to it computes in float32: rounding a tensor
// costs less there than an elementwise kernel of float16. In bfloat16, only the nodes do whose
// kernels truncate. Nodes that must share a dtype, such as those
// around a loop, compute in float32 only if all of them do.
ComputeDtypes DecideComputeDtypes(const GraphView& view, const DecideContext& context);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_DECIDE_COMPUTE_DTYPES_H_
