// The ops that record what a compiled function has counted: see watch_compiled.h.
#ifndef NPU_PRECISION_CC_WATCH_COUNTS_OP_H_
#define NPU_PRECISION_CC_WATCH_COUNTS_OP_H_

namespace npu_precision {

// Yields whether this step of a graph is recorded. Its attribute "graph" is the number in
// FlightStore.
constexpr char kRecordsOp[] = "NpuPrecisionRecords";

// Records counts, int32 [tensors, kCounts]: see counted_function.h. It has the same attribute, and
// no output.
constexpr char kWatchCountsOp[] = "NpuPrecisionWatchCounts";

}  // namespace npu_precision

#endif  // NPU_PRECISION_CC_WATCH_COUNTS_OP_H_
