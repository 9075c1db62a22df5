// Applies customize_dtypes: the dtypes that the user requests for single nodes or op types.
//
// A type group of a node has one dtype, and a line may request dtypes for several of its ports. The
// node computes in the low type if the line requests it for all ports of the group that it names,
// the mode has that low type, and there is a kernel. Otherwise the node computes in float32. Two
// Casts then round each port for which the line requests a low type: an input before the node reads
// it, an output before its consumers.
// "OpType::MatMul:InputDtype:float16,float16,OutputDtype:float32":
// Before: MatMul(x, y). After: MatMul(Cast(Cast(x)), Cast(Cast(y))).
#ifndef NPU_PRECISION_GRAPH_PASSES_DECIDE_APPLY_CUSTOM_DTYPES_H_
#define NPU_PRECISION_GRAPH_PASSES_DECIDE_APPLY_CUSTOM_DTYPES_H_

#include "graph_passes/decide/classify_nodes.h"
#include "graph_passes/decide/decide_context.h"
#include "graph_passes/decide/decision.h"
#include "graph_passes/graph/graph_view.h"

namespace npu_precision {

// The dtype that the line requests for group `group` of node `id`: a low type, or DT_FLOAT;
// DT_INVALID if the line names no port of the group.
tensorflow::DataType WantedOfGroup(const GraphView& view, int id, int group,
                                   const CustomDtypes& line);

// Whether the requested dtype means that the group changes to the dtype of the mode.
bool AsksForChange(const DecideContext& context, tensorflow::DataType wanted);

// Lists the ports to round, once all dtypes are decided. Warns about lines that cannot be followed.
void RoundCustomPorts(const GraphView& view, const NodeClasses& classes, Decisions* decisions);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_DECIDE_APPLY_CUSTOM_DTYPES_H_
