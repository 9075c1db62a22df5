// What customize_dtypes asks of the nodes that it names.
//
// A type group of a node has one dtype, and a line may want several of its ports. The node computes
// in the low type where that is wanted of all ports of the group that the line names, the mode has
// that low type, and there is a kernel. Else it computes in float32, and the ports that are to be
// of a low type are rounded by two Casts: an input before the node reads it, an output before
// others read that.
// "OpType::MatMul:InputDtype:float16,float16,OutputDtype:float32":
// Before: MatMul(x, y). After: MatMul(Cast(Cast(x)), Cast(Cast(y))).
#ifndef NPU_PRECISION_GRAPH_PASSES_DECIDE_APPLY_CUSTOM_DTYPES_H_
#define NPU_PRECISION_GRAPH_PASSES_DECIDE_APPLY_CUSTOM_DTYPES_H_

#include "graph_passes/decide/classify_nodes.h"
#include "graph_passes/decide/decide_context.h"
#include "graph_passes/decide/decision.h"
#include "graph_passes/graph/graph_view.h"

namespace npu_precision {

// The dtype in which group `group` of node `id` is to compute by the line: a low type, or DT_FLOAT;
// DT_INVALID where the line names no port of the group.
tensorflow::DataType WantedOfGroup(const GraphView& view, int id, int group,
                                   const CustomDtypes& line);

// Whether a group that is to compute in a dtype is to change, to the dtype that the mode gives.
bool AsksForChange(const DecideContext& context, tensorflow::DataType wanted);

// Lists the ports to round, once all dtypes are decided. Warns of lines that cannot be followed.
void RoundCustomPorts(const GraphView& view, const NodeClasses& classes, Decisions* decisions);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_DECIDE_APPLY_CUSTOM_DTYPES_H_
