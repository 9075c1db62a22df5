// Facts about TensorFlow's ops that no list changes.
#ifndef NPU_PRECISION_GRAPH_PASSES_GRAPH_OP_TRAITS_H_
#define NPU_PRECISION_GRAPH_PASSES_GRAPH_OP_TRAITS_H_

#include <string>

#include "tensorflow/core/framework/node_def.pb.h"
#include "tensorflow/core/framework/op_def.pb.h"

namespace npu_precision {

// The op has no precision opinion: constants, placeholders and arguments, variable reads,
// iterators.
bool IsNeutralSource(const std::string& op);

// The dtype of the op never changes, whatever the lists say: neutral sources; ops with state
// (variables and the ops that read or write them, random numbers, queues); ops on references,
// resources or variants; ops that call functions, whose signatures stay; ops that read bits rather
// than values; save, restore and summaries.
bool IsNeverChanged(const tensorflow::OpDef& op_def);

// The attribute for the dtype of the elements of an op that creates, reads or writes a TensorArray,
// a TensorList or a Stack; nullptr for any other op.
const std::string* ElementDtypeAttribute(const std::string& op);
bool HasElementDtype(const std::string& op);

// Whether no list changes an op: as IsNeverChanged, except that an op on a handle is judged by the
// dtype of its elements.
bool NeverChanges(const std::string& op, const tensorflow::OpDef* op_def);

// The first: yields a variable's value unchanged. The second: changes the value of a variable or
// an accumulator.
bool ReadsVariable(const std::string& op);
bool WritesVariable(const std::string& op);

// The op takes the handle of a variable, and does not change the value.
bool OnlyReadsHandle(const std::string& op);

// Yields a weight: a constant, or values of a variable.
bool YieldsWeight(const std::string& op);

// The op yields the memory of its first input (a Merge, of any input), never a copy.
bool AliasesInput(const std::string& op);

// The first: an argument of a function. The second: a result.
bool IsArgument(const std::string& op);
bool IsResult(const std::string& op);

// An op of TensorFlow 1 loops and branches, which yields its input.
bool IsControlFlow(const std::string& op);
// A branch is chosen: of two, or of many for a Case.
bool IsSwitch(const std::string& op);
bool IsEnter(const std::string& op);
bool IsExit(const std::string& op);
// Merge and the Enter or NextIteration that feed it are one value of one dtype.
bool IsMerge(const std::string& op);
bool FeedsLoopMerge(const std::string& op);

// The op multiplies matrices or convolves: it runs on Ascend's cube unit.
bool IsMatrixOrConvolution(const std::string& op);
// The op convolves its first input with a filter, its second.
bool Convolves(const std::string& op);

// A fused batch norm in any version, but not its gradient.
bool IsBatchNorm(const std::string& op);

// The op adds two tensors with broadcasting.
bool AddsTensors(const std::string& op);
// The op yields the sum of all its inputs.
bool AddsAll(const std::string& op);
bool MultipliesMatrices(const std::string& op);  // MatMul and all versions of BatchMatMul
// The op adds two tensors, or subtracts one from the other.
bool AddsOrSubtracts(const std::string& op);
// The op yields the difference of two tensors, or its square.
bool IsDifference(const std::string& op);
bool Multiplies(const std::string& op);
bool Divides(const std::string& op);

// The op that an Einsum stands for. "Einsum": a product of matrices, which sums over an index that
// two operands have. "Sum": it only sums over other indices ("i->"). "Mul": it sums over none
// ("i,j->ij", the angles of a rotary embedding).
std::string ComputedByEinsum(const tensorflow::NodeDef& node);

// The op yields every element of one tensor and otherwise only zeros; or yields its shape. Ops that
// join several tensors, or pick some elements, do not count.
bool MovesValues(const std::string& op);

// The outputs depend only on the shapes of the inputs, so no error in their values reaches them.
bool ReadsShapesOnly(const std::string& op);

// Each element of the outputs is an element of an input, its negative or its magnitude, or a small
// whole number. So rounded inputs give rounded outputs, in whatever dtype the op computes.
bool SelectsValues(const std::string& op);

// The op computes each output element from one element of each operand, or reshapes its first
// input. A compiler fuses such ops with their producer. Comparisons do not count.
bool IsElementwise(const std::string& op);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_GRAPH_OP_TRAITS_H_
