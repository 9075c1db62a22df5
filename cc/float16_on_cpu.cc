#include "cc/float16_on_cpu.h"

#include "absl/strings/str_cat.h"
#include "cc/tf_compat.h"
#include "graph_passes/decide/decision.h"
#include "graph_passes/graph/marks.h"
#include "graph_passes/graph/op_traits.h"
#include "tensorflow/core/framework/attr_value.pb.h"

namespace npu_precision {
namespace {

using tensorflow::NodeDef;

bool IsLoweredProduct(const NodeDef& node) {
  DecisionMark mark;
  return IsMatrixOrConvolution(node.op()) && ReadDecisionMark(node, &mark) &&
         mark.decision == VerdictName(Verdict::kLowered);
}

bool IsFloat16(const NodeDef& node) {
  const auto type = node.attr().find("T");
  return type != node.attr().end() && type->second.type() == tensorflow::DT_HALF;
}

}  // namespace

std::string Float16Advice(const tensorflow::GraphDef& graph, const DtypeSupport& support) {
  if (CpuComputesInFloat16()) return "";
  bool emulates = false, in_float32 = false;
  for (const NodeDef& node : graph.node()) {
    if (!IsLoweredProduct(node) || support.KindOf(node) != DeviceKind::kCpu) continue;
    emulates |= IsFloat16(node);
    for (const auto& group : GroupsInFloat32(node)) {
      in_float32 |= group.second == tensorflow::DT_HALF;
    }
  }
  if (!emulates && !in_float32) return "";
  return absl::StrCat(
      emulates
          ? "on this CPU, TensorFlow emulates matrix products and convolutions in float16, "
            "which is slow"
          : "on this CPU, which has no fast float16, float32 takes its place, on values rounded "
            "to float16 (float16_compute): it is not faster than float32",
      CpuComputesInBfloat16() ? "; bfloat16 is the fast choice here: allow_mix_precision_bf16"
                              : "");
}

}  // namespace npu_precision
