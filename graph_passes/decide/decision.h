// The decision about each node, with its reason: plain data for the rewrite, the ledger and the
// log.
#ifndef NPU_PRECISION_GRAPH_PASSES_DECIDE_DECISION_H_
#define NPU_PRECISION_GRAPH_PASSES_DECIDE_DECISION_H_

#include <string>
#include <vector>

#include "graph_passes/analysis/value_range.h"
#include "graph_passes/graph/graph_view.h"
#include "graph_passes/lists/op_lists.h"
#include "tensorflow/core/framework/types.pb.h"

namespace npu_precision {

enum class Verdict : unsigned char {
  kNotFloat,  // no port has a dtype that the mode changes
  kKept,
  kLowered,
  kRaised,
};

enum class Reason : unsigned char {
  kNone,
  kWhiteList,
  kBlackList,
  kUnlisted,
  kGrayFollowsLowered,
  kGrayFollowsKept,
  kSmallOperand,
  kGrayFollowsConsumers,
  kGrayNoVotes,
  kNeutralSource,
  kKeptByCaller,
  kNeverChanged,
  kUpdatesVariable,
  kSumsIterations,
  kSumsCalls,
  kUpdatesValue,
  kGuardConstant,
  kCountingConstant,
  kLargeOffset,
  kAddsWindows,
  kSlowKernel,
  kCarriesValue,
  kLeavesRange,
  kBeforeMagnifier,
  kMagnifies,
  kKeptInPlace,
  kFollowsForward,
  kCastsCostMore,
  kHandleLeavesGraph,
  kKeepDtypeScope,
  kAutocastDisabled,
  kOutsideAutocast,
  kUnknownNeighbour,
  kFed,
  kPreservedOutputs,
  kFixedDtype,
  kNoKernel,
  kTargetUnsupported,
  kSharesDtype,
  kForced,
  kTargetLacksFloat32,
  kMatrixOrConvolution,
  kTargetHasFloat32,
  kOriginKept,
  kInputsRounded,
  kCustomized,
  kNotMatrixOrConvolution,
};

const char* VerdictName(Verdict verdict);
// The verdict with that name, or kKept.
Verdict VerdictFromName(const std::string& name);

struct Decision {
  Verdict verdict = Verdict::kNotFloat;
  Reason reason = Reason::kNone;
  Listing listing;
  int cause = -1;             // node id, or -1
  bool lacks_kernel = false;  // it keeps float32, for which the target has no kernel
};

struct RoundedInput {
  InputPort input;
  tensorflow::DataType dtype;
};

struct RoundedOutput {
  OutputPort tensor;
  tensorflow::DataType dtype;
};

struct Decisions {
  std::vector<Decision> nodes;                     // by node id
  std::vector<tensorflow::DataType> group_dtypes;  // by the view's group numbers
  // Ports to round to a low type and back: those of cube mode and of customize_dtypes.
  std::vector<RoundedInput> rounded_inputs;
  std::vector<RoundedOutput> rounded_outputs;
  std::vector<ValueRange> ranges;     // by node id, of all its outputs
  std::vector<std::string> warnings;  // about the effects of the mode, a sentence each

  bool ChangesAnything(const GraphView& view) const;
};

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_DECIDE_DECISION_H_
