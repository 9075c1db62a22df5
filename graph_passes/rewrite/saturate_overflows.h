// Makes an emulated graph overflow as an Ascend 910 does: a value that exceeds float16 when it is
// rounded becomes 65504, and sets a flag that loss scaling reads.
//
// Before: product -> Cast(float16) -> ..., and the check finite = All(...).
// After: product -> NpuPrecisionSaturate -> ..., and
// finite/npu_gradients = All(...),
// finite/npu_no_overflow = NpuPrecisionNoOverflow(^finite/npu_gradients),
// finite = LogicalAnd(finite/npu_gradients, finite/npu_no_overflow).
//
// Refused: Casts that the user wrote, and a check that the caller feeds. A constant that does not
// fit becomes 65504 too, but does not set the flag: it is the same in every step, and no scale
// changes it.
#ifndef NPU_PRECISION_GRAPH_PASSES_REWRITE_SATURATE_OVERFLOWS_H_
#define NPU_PRECISION_GRAPH_PASSES_REWRITE_SATURATE_OVERFLOWS_H_

#include <set>
#include <string>

#include "graph_passes/graph/graph_view.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace npu_precision {

// `view` is of the graph before it was emulated. `graph` has the same nodes, and new ones behind
// them. Returns whether anything changed.
bool SaturateOverflows(const GraphView& view, const std::set<std::string>& fed,
                       tensorflow::GraphDef* graph);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_REWRITE_SATURATE_OVERFLOWS_H_
