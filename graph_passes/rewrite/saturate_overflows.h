// Makes an emulated graph overflow as an Ascend 910 does: where a value is rounded to float16 and
// does not fit, it becomes 65504, and a flag goes up that loss scaling reads.
//
// Before: product -> Cast(float16) -> ..., and the check finite = All(...).
// After: product -> NpuPrecisionSaturate -> ..., and
// finite/npu_gradients = All(...),
// finite/npu_no_overflow = NpuPrecisionNoOverflow(^finite/npu_gradients),
// finite = LogicalAnd(finite/npu_gradients, finite/npu_no_overflow).
//
// Refused: Casts that the user wrote, and a check that the caller feeds. A constant that does not
// fit becomes 65504 too, without the flag: it is the same in every step, and no scale changes it.
#ifndef NPU_PRECISION_GRAPH_PASSES_REWRITE_SATURATE_OVERFLOWS_H_
#define NPU_PRECISION_GRAPH_PASSES_REWRITE_SATURATE_OVERFLOWS_H_

#include <set>
#include <string>

#include "graph_passes/graph/graph_view.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace npu_precision {

// `view` is of the graph before it was emulated; `graph` has more nodes, behind those. Returns
// whether anything changed.
bool SaturateOverflows(const GraphView& view, const std::set<std::string>& fed,
                       tensorflow::GraphDef* graph);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_REWRITE_SATURATE_OVERFLOWS_H_
