#include "graph_passes/graph/op_traits.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "tensorflow/core/framework/types.pb.h"

namespace npu_precision {
namespace {

using Names = std::unordered_set<std::string>;

bool HoldsState(const tensorflow::OpDef::ArgDef& argument) {
  return argument.is_ref() || argument.type() == tensorflow::DT_RESOURCE ||
         argument.type() == tensorflow::DT_VARIANT;
}

}  // namespace

bool IsNeutralSource(const std::string& op) {
  static const auto* names = new Names{"Const",
                                       "HostConst",
                                       "Placeholder",
                                       "PlaceholderV2",
                                       "PlaceholderWithDefault",
                                       "_Arg",
                                       "_DeviceArg",
                                       "Variable",
                                       "VariableV2",
                                       "TemporaryVariable",
                                       "ReadVariableOp",
                                       "ResourceGather",
                                       "ResourceGatherNd",
                                       "IteratorGetNext",
                                       "IteratorGetNextSync",
                                       "OneShotIterator",
                                       "MakeIterator",
                                       "QueueDequeue",
                                       "QueueDequeueV2",
                                       "QueueDequeueMany",
                                       "QueueDequeueManyV2",
                                       "QueueDequeueUpTo",
                                       "QueueDequeueUpToV2",
                                       "ParseExample",
                                       "ParseExampleV2",
                                       "ParseSingleExample",
                                       "ParseSequenceExample",
                                       "ParseSequenceExampleV2",
                                       "DecodeRaw",
                                       "ImmutableConst"};
  return names->count(op) != 0;
}

bool IsNeverChanged(const tensorflow::OpDef& op_def) {
  static const auto* names =
      new Names{// They yield their input, but are part of the function's or the device's contract.
                "_Retval", "_DeviceRetval", "_Send", "_Recv", "_HostSend", "_HostRecv",
                // A stateless random number generator still draws other numbers in another dtype.
                "StatelessRandomUniform", "StatelessRandomUniformV2", "StatelessRandomNormal",
                "StatelessRandomNormalV2", "StatelessTruncatedNormal", "StatelessTruncatedNormalV2",
                "StatelessRandomGammaV2", "StatelessRandomGammaV3", "StatelessRandomPoisson",
                "StatelessRandomBinomial", "StatelessParameterizedTruncatedNormal",
                // Python expects the traced dtypes; bits have another meaning in another dtype.
                "PyFuncStateless", "Bitcast",
                // Files and logs get the values as they were computed.
                "Save", "SaveV2", "SaveSlices", "Restore", "RestoreV2", "RestoreSlice",
                "ScalarSummary", "HistogramSummary", "ImageSummary", "AudioSummary",
                "AudioSummaryV2", "TensorSummary", "TensorSummaryV2", "MergeSummary"};
  if (op_def.is_stateful() || IsNeutralSource(op_def.name())) return true;
  if (names->count(op_def.name()) != 0) return true;
  for (const auto& attr : op_def.attr()) {
    if (attr.type() == "func" || attr.type() == "list(func)") return true;
  }
  for (const auto& argument : op_def.input_arg()) {
    if (HoldsState(argument)) return true;
  }
  for (const auto& argument : op_def.output_arg()) {
    if (HoldsState(argument)) return true;
  }
  return false;
}

const std::string* ElementDtypeAttribute(const std::string& op) {
  static const auto* attributes = new std::unordered_map<std::string, std::string>{
      {"EmptyTensorList", "element_dtype"},
      {"TensorListConcat", "element_dtype"},
      {"TensorListConcatLists", "element_dtype"},
      {"TensorListConcatV2", "element_dtype"},
      {"TensorListFromTensor", "element_dtype"},
      {"TensorListGather", "element_dtype"},
      {"TensorListGetItem", "element_dtype"},
      {"TensorListPopBack", "element_dtype"},
      {"TensorListPushBack", "element_dtype"},
      {"TensorListPushBackBatch", "element_dtype"},
      {"TensorListReserve", "element_dtype"},
      {"TensorListScatter", "element_dtype"},
      {"TensorListScatterIntoExistingList", "element_dtype"},
      {"TensorListScatterV2", "element_dtype"},
      {"TensorListSetItem", "element_dtype"},
      {"TensorListSplit", "element_dtype"},
      {"TensorListStack", "element_dtype"},
      {"TensorArrayV3", "dtype"},
      {"TensorArrayConcatV3", "dtype"},
      {"TensorArrayGatherV3", "dtype"},
      {"TensorArrayReadV3", "dtype"},
      {"TensorArrayScatterV3", "T"},
      {"TensorArraySplitV3", "T"},
      {"TensorArrayWriteV3", "T"},
      {"StackV2", "elem_type"},
      {"StackPopV2", "elem_type"},
      {"StackPushV2", "T"}};
  const auto found = attributes->find(op);
  return found == attributes->end() ? nullptr : &found->second;
}

bool HasElementDtype(const std::string& op) { return ElementDtypeAttribute(op) != nullptr; }

bool NeverChanges(const std::string& op, const tensorflow::OpDef* op_def) {
  return op_def != nullptr && !HasElementDtype(op) && IsNeverChanged(*op_def);
}

bool OnlyReadsHandle(const std::string& op) {
  static const auto* names =
      new std::unordered_set<std::string>{"ReadVariableOp", "ResourceGather", "ResourceGatherNd",
                                          "VariableShape", "VarIsInitializedOp"};
  return names->count(op) != 0;
}

bool ReadsVariable(const std::string& op) {
  return op == "ReadVariableOp" || op == "VariableV2" || op == "Variable";
}

bool YieldsWeight(const std::string& op) {
  return op == "Const" || ReadsVariable(op) || absl::StartsWith(op, "ResourceGather");
}

bool WritesVariable(const std::string& op) {
  static const auto* others = new Names{"ScatterAdd",
                                        "ScatterDiv",
                                        "ScatterMax",
                                        "ScatterMin",
                                        "ScatterMul",
                                        "ScatterSub",
                                        "ScatterUpdate",
                                        "ScatterNdAdd",
                                        "ScatterNdMax",
                                        "ScatterNdMin",
                                        "ScatterNdSub",
                                        "ScatterNdUpdate",
                                        "StridedSliceAssign",
                                        "ResourceStridedSliceAssign",
                                        "AccumulatorApplyGradient",
                                        "ResourceAccumulatorApplyGradient",
                                        "SparseAccumulatorApplyGradient"};
  for (const char* prefix : {"Assign", "Apply", "SparseApply", "ResourceApply",
                             "ResourceSparseApply", "ResourceScatter"}) {
    if (absl::StartsWith(op, prefix)) return true;
  }
  return others->count(op) != 0;
}

bool AliasesInput(const std::string& op) {
  static const auto* names =
      new Names{"Identity",      "Enter",        "Switch",          "_SwitchN",
                "Merge",         "StopGradient", "PreventGradient", "PlaceholderWithDefault",
                "Reshape",       "ExpandDims",   "Squeeze",         "EnsureShape",
                "CheckNumerics", "RefIdentity",  "RefEnter",        "RefSwitch"};
  return names->count(op) != 0;
}

bool IsArgument(const std::string& op) { return op == "_Arg" || op == "_DeviceArg"; }
bool IsResult(const std::string& op) { return op == "_Retval" || op == "_DeviceRetval"; }

bool IsControlFlow(const std::string& op) {
  return IsSwitch(op) || op == "Exit" || IsMerge(op) || FeedsLoopMerge(op);
}

bool IsSwitch(const std::string& op) { return op == "Switch" || op == "_SwitchN"; }

bool IsEnter(const std::string& op) { return op == "Enter" || op == "RefEnter"; }

bool IsExit(const std::string& op) { return op == "Exit" || op == "RefExit"; }

bool IsBatchNorm(const std::string& op) {
  return op == "FusedBatchNorm" || op == "FusedBatchNormV2" || op == "FusedBatchNormV3";
}

bool IsMerge(const std::string& op) { return op == "Merge"; }

bool FeedsLoopMerge(const std::string& op) { return op == "Enter" || op == "NextIteration"; }

bool MultipliesMatrices(const std::string& op) {
  return op == "MatMul" || absl::StartsWith(op, "BatchMatMul");
}
bool AddsTensors(const std::string& op) { return op == "Add" || op == "AddV2"; }
bool AddsAll(const std::string& op) { return AddsTensors(op) || op == "AddN"; }
bool AddsOrSubtracts(const std::string& op) { return AddsTensors(op) || op == "Sub"; }
bool IsDifference(const std::string& op) { return op == "Sub" || op == "SquaredDifference"; }

bool Multiplies(const std::string& op) { return op == "Mul" || op == "MulNoNan"; }
bool Divides(const std::string& op) { return op == "RealDiv" || op == "Div" || op == "DivNoNan"; }

bool IsMatrixOrConvolution(const std::string& op) {
  static const auto* names = new Names{"MatMul",
                                       "BatchMatMul",
                                       "BatchMatMulV2",
                                       "BatchMatMulV3",
                                       "Einsum",
                                       "Conv",
                                       "Conv2D",
                                       "Conv2DBackpropFilter",
                                       "Conv2DBackpropFilterV2",
                                       "Conv2DBackpropInput",
                                       "Conv2DBackpropInputV2",
                                       "Conv3D",
                                       "Conv3DBackpropFilter",
                                       "Conv3DBackpropFilterV2",
                                       "Conv3DBackpropInput",
                                       "Conv3DBackpropInputV2",
                                       "DepthwiseConv2dNative",
                                       "DepthwiseConv2dNativeBackpropFilter",
                                       "DepthwiseConv2dNativeBackpropInput"};
  return names->count(op) != 0;
}

bool Convolves(const std::string& op) {
  return op == "Conv2D" || op == "Conv3D" || op == "DepthwiseConv2dNative" || op == "Conv";
}

std::string ComputedByEinsum(const tensorflow::NodeDef& node) {
  const auto equation = node.attr().find("equation");
  if (equation == node.attr().end()) return "Einsum";
  const std::vector<std::string> sides = absl::StrSplit(equation->second.s(), "->");
  if (sides.size() != 2) return "Einsum";
  const std::vector<std::string> operands = absl::StrSplit(sides[0], ',');
  bool sums = false;
  for (const char index : sides[0]) {
    if (!absl::ascii_isalpha(static_cast<unsigned char>(index))) continue;
    if (absl::StrContains(sides[1], std::string(1, index))) continue;
    sums = true;
    const auto has_it = [index](const std::string& operand) {
      return operand.find(index) != std::string::npos;
    };
    if (std::count_if(operands.begin(), operands.end(), has_it) > 1) return "Einsum";
  }
  return sums ? "Sum" : "Mul";
}

bool MovesValues(const std::string& op) {
  static const auto* names = new std::unordered_set<std::string>{
      "Identity", "Snapshot", "StopGradient", "PreventGradient", "EnsureShape", "Reshape",
      "ExpandDims", "Squeeze", "Transpose", "ConjugateTranspose", "Unpack", "Split", "SplitV",
      "Pad", "MirrorPad", "Tile", "BroadcastTo", "Fill", "Reverse", "ReverseV2", "ReverseSequence",
      "Roll", "SpaceToBatch", "SpaceToBatchND", "SpaceToDepth", "DepthToSpace", "Diag",
      "MatrixDiag", "Shape", "Size", "Rank",
      // Control flow.
      "Enter", "Exit", "NextIteration", "Merge", "Switch", "_SwitchN",
      // Handles.
      "EmptyTensorList", "TensorListReserve", "TensorListFromTensor", "TensorListPushBack",
      "TensorListSetItem", "TensorListGetItem", "TensorListPopBack", "TensorListStack",
      "TensorArrayV3", "TensorArrayScatterV3", "TensorArrayWriteV3", "TensorArrayReadV3",
      "TensorArrayGatherV3"};
  return names->count(op) != 0;
}

bool ReadsShapesOnly(const std::string& op) {
  static const auto* names = new Names{"Shape", "ShapeN", "Size", "Rank", "ZerosLike", "OnesLike"};
  return names->count(op) != 0;
}

bool SelectsValues(const std::string& op) {
  static const auto* names = new Names{"Neg",
                                       "Abs",
                                       "Sign",
                                       "Floor",
                                       "Ceil",
                                       "Round",
                                       "Rint",
                                       "Relu",
                                       "Relu6",
                                       "ReluGrad",
                                       "Relu6Grad",
                                       "Maximum",
                                       "Minimum",
                                       "ClipByValue",
                                       "Select",
                                       "SelectV2",
                                       "Max",
                                       "Min",
                                       "MaxPool",
                                       "MaxPoolV2",
                                       "MaxPool3D",
                                       "TopKV2",
                                       "ZerosLike",
                                       "OnesLike",
                                       "ConcatV2",
                                       "Concat",
                                       "Pack",
                                       "PadV2",
                                       "Slice",
                                       "StridedSlice",
                                       "StridedSliceGrad",
                                       "Gather",
                                       "GatherV2",
                                       "GatherNd",
                                       "MatrixBandPart",
                                       "ResizeNearestNeighbor",
                                       "IdentityN"};
  return names->count(op) != 0 || MovesValues(op);
}

bool IsElementwise(const std::string& op) {
  static const auto* names = new Names{
      "Add", "AddV2", "AddN", "Sub", "Mul", "RealDiv", "Div", "DivNoNan", "MulNoNan", "BiasAdd",
      "Neg", "Abs", "Square", "SquaredDifference", "Sqrt", "Rsqrt", "Reciprocal", "Inv", "Exp",
      "Expm1", "Log", "Log1p", "Pow", "Sin", "Cos", "Erf", "Erfc", "Maximum", "Minimum",
      "ClipByValue", "Select", "SelectV2", "Tanh", "Sigmoid", "Relu", "Relu6", "Elu", "Selu",
      "LeakyRelu", "Softplus", "Softsign", "TanhGrad", "SigmoidGrad", "ReluGrad", "Relu6Grad",
      "EluGrad", "SeluGrad", "LeakyReluGrad", "SoftplusGrad", "SoftsignGrad", "SqrtGrad",
      "RsqrtGrad", "ReciprocalGrad", "InvGrad",
      // The same elements in another shape.
      "Identity", "Snapshot", "StopGradient", "PreventGradient", "EnsureShape", "Reshape",
      "ExpandDims", "Squeeze"};
  return names->count(op) != 0;
}

}  // namespace npu_precision
