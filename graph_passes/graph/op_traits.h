// Facts about TensorFlow's ops that no list changes.
#ifndef NPU_PRECISION_GRAPH_PASSES_GRAPH_OP_TRAITS_H_
#define NPU_PRECISION_GRAPH_PASSES_GRAPH_OP_TRAITS_H_

#include <string>

#include "tensorflow/core/framework/node_def.pb.h"
#include "tensorflow/core/framework/op_def.pb.h"

namespace npu_precision {

// Has no precision opinion: constants, placeholders and arguments, variable reads, iterators.
bool IsNeutralSource(const std::string& op);

// Its dtype is never changed, whatever the lists say: neutral sources; ops with state (variables
// and what reads or writes them, random numbers, queues); ops on references, resources or
// variants; ops that call functions, whose signatures stay; ops that read bits rather than values;
// save, restore and summaries.
bool IsNeverChanged(const tensorflow::OpDef& op_def);

// The attribute for the dtype of the elements of an op that creates, reads or writes a TensorArray,
// a TensorList or a Stack; nullptr for any other op.
const std::string* ElementDtypeAttribute(const std::string& op);
bool HasElementDtype(const std::string& op);

// Whether no list changes what an op is: as IsNeverChanged, but an op on a handle is known by the
// dtype of the elements.
bool NeverChanges(const std::string& op, const tensorflow::OpDef* op_def);

// The first: yields a variable's value unchanged. The second: changes the value of a variable or
// an accumulator.
bool ReadsVariable(const std::string& op);
bool WritesVariable(const std::string& op);

// Yields the memory of its first input (a Merge, of any input), and never a copy.
bool AliasesInput(const std::string& op);

// The first: an argument of a function. The second: a result.
bool IsArgument(const std::string& op);
bool IsResult(const std::string& op);

// An op of version 1's loops and branches, which yields what it reads.
bool IsControlFlow(const std::string& op);
// Merge and the Enter or NextIteration that feed it are one value of one dtype.
bool IsMerge(const std::string& op);
bool FeedsLoopMerge(const std::string& op);

// Multiplies matrices or convolves: what Ascend's cube unit computes.
bool IsMatrixOrConvolution(const std::string& op);

// Adds two tensors of any shapes that broadcast.
bool AddsTensors(const std::string& op);
bool Multiplies(const std::string& op);
bool Divides(const std::string& op);

// What an Einsum computes: "Einsum" for a product of matrices, which sums over an index that two
// operands have. "Sum" where it sums over others only ("i->"), and "Mul" where it sums over none
// ("i,j->ij", the angles of a rotary embedding).
std::string ComputedByEinsum(const tensorflow::NodeDef& node);

// Yields every element of one tensor and, apart from these, only zeros; or yields its shape. Ops
// that join several tensors, or pick some elements, do not count.
bool MovesValues(const std::string& op);

// Its outputs depend on the shapes of its inputs alone, so no error of their values reaches them.
bool ReadsShapesOnly(const std::string& op);

// Each element of its outputs is one of an input, the negative or the magnitude of one, or a small
// whole number. So rounded inputs give rounded outputs, in whatever dtype it computes.
bool SelectsValues(const std::string& op);

// Computes an element of its output from one element of each operand, or yields its first input in
// another shape: what a compiler fuses with what comes before. Comparisons do not count.
bool IsElementwise(const std::string& op);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_GRAPH_OP_TRAITS_H_
