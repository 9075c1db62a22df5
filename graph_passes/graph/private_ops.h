// Names of the op types that this project registers, and that passes know.
#ifndef NPU_PRECISION_GRAPH_PASSES_GRAPH_PRIVATE_OPS_H_
#define NPU_PRECISION_GRAPH_PASSES_GRAPH_PRIVATE_OPS_H_

namespace npu_precision {

// Their kernels are in cc/saturate_op.cc. The first rounds float32 to float16. The second yields
// whether the flag was down, and takes it down.
constexpr char kSaturateOp[] = "NpuPrecisionSaturate";
constexpr char kNoOverflowOp[] = "NpuPrecisionNoOverflow";

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_GRAPH_PRIVATE_OPS_H_
