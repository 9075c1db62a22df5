// The op that counts what is in a tensor.
#ifndef NPU_PRECISION_CC_WATCH_OP_H_
#define NPU_PRECISION_CC_WATCH_OP_H_

namespace npu_precision {

// Has one input and no output. Its attributes: T; "graph" and "tensor", where FlightStore has it.
extern const char kWatchOp[];

}  // namespace npu_precision

#endif  // NPU_PRECISION_CC_WATCH_OP_H_
