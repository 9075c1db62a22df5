#include "cc/float16_on_cpu.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "cc/tf_compat.h"
#include "graph_passes/decide/decision.h"
#include "graph_passes/graph/marks.h"
#include "graph_passes/graph/op_traits.h"
#include "tensorflow/core/framework/attr_value.pb.h"

namespace npu_precision {
namespace {

bool IsLoweredProduct(const tensorflow::NodeDef& node) {
  if (!IsMatrixOrConvolution(node.op())) return false;
  const auto type = node.attr().find("T");
  DecisionMark mark;
  return type != node.attr().end() && type->second.type() == tensorflow::DT_HALF &&
         ReadDecisionMark(node, &mark) && mark.decision == VerdictName(Verdict::kLowered);
}

}  // namespace

bool EmulatesFloat16(const tensorflow::GraphDef& graph, const DtypeSupport& support) {
  if (CpuComputesInFloat16()) return false;
  return std::any_of(graph.node().begin(), graph.node().end(),
                     [&support](const tensorflow::NodeDef& node) {
                       return IsLoweredProduct(node) && support.KindOf(node) == DeviceKind::kCpu;
                     });
}

std::string Float16Advice() {
  return absl::StrCat(
      "on this CPU, TensorFlow emulates matrix products and convolutions in float16, which is slow",
      CpuComputesInBfloat16() ? "; bfloat16 is the fast choice here: allow_mix_precision_bf16"
                              : "");
}

}  // namespace npu_precision
