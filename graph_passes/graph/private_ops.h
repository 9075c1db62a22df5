// Names of the op types that this project registers and that passes use.
#ifndef NPU_PRECISION_GRAPH_PASSES_GRAPH_PRIVATE_OPS_H_
#define NPU_PRECISION_GRAPH_PASSES_GRAPH_PRIVATE_OPS_H_

namespace npu_precision {

// Their kernels are in cc/saturate_op.cc. The first op rounds float32 to float16. The second yields
// true if the overflow flag was not set, and clears it.
constexpr char kSaturateOp[] = "NpuPrecisionSaturate";
constexpr char kNoOverflowOp[] = "NpuPrecisionNoOverflow";

// Their kernels are in cc/update_op.cc: they run a program (update_program.h) over the elements of
// variables. The second is for the reference variables of TensorFlow 1.
constexpr char kUpdateOp[] = "NpuPrecisionUpdate";
constexpr char kUpdateRefOp[] = "NpuPrecisionUpdateRef";
// Its kernel is in cc/kept_cast_op.cc: a Cast of weights that is kept until they change.
constexpr char kKeptCastOp[] = "NpuPrecisionKeptCast";
// Their kernels are in cc/sum_op.cc and cc/segment_sum_op.cc. They add up in float32, from tensors
// of a low type: several terms, all rows of one tensor, or its rows by segment.
constexpr char kSumOp[] = "NpuPrecisionSum";
constexpr char kSumRowsOp[] = "NpuPrecisionSumRows";
constexpr char kSumSegmentsOp[] = "NpuPrecisionSumSegments";

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_GRAPH_PRIVATE_OPS_H_
