// The op that counts the values of a tensor.
#ifndef NPU_PRECISION_CC_WATCH_OP_H_
#define NPU_PRECISION_CC_WATCH_OP_H_

namespace npu_precision {

// The op has one input and no output. Its attributes: T; "graph" and "tensor", its place in
// FlightStore.
extern const char kWatchOp[];

}  // namespace npu_precision

#endif  // NPU_PRECISION_CC_WATCH_OP_H_
