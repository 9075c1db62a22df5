// Makes a function that counts what is in its tensors, for a flight recorder. The op that does so
// elsewhere (watch_op.h) cannot run where XLA compiles.
#ifndef NPU_PRECISION_CC_COUNTED_FUNCTION_H_
#define NPU_PRECISION_CC_COUNTED_FUNCTION_H_

#include <string>
#include <vector>

#include "graph_passes/analysis/watched_tensors.h"
#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/framework/function.pb.h"
#include "tensorflow/core/lib/core/status.h"

namespace npu_precision {

// The columns of the counts of a tensor, which are int32.
enum Count {
  kElements,
  kZeros,
  kSmall,  // zeros, and values below the normal numbers of the low type
  kInfinities,
  kNans,
  kOver,         // finite values that the low type makes infinite
  kLargestBits,  // the bits of the largest finite magnitude, a float32
  kCounts
};

struct CountedFunction {
  // The function has one result more, int32 [tensors, kCounts]; and the functions that it needs.
  tensorflow::FunctionDef function;
  std::vector<tensorflow::FunctionDef> counting;
  std::vector<WatchedTensor> tensors;
  std::vector<LoweredNode> lowered;
};

// The tensors in the bodies of loops and branches are left out. If there is no tensor to watch, the
// result has none, and no function. `device` is where the function runs.
tensorflow::Status MakeCountedFunction(const tensorflow::FunctionDef& function, Watch watch,
                                       const std::string& device, CountedFunction* counted);

}  // namespace npu_precision

#endif  // NPU_PRECISION_CC_COUNTED_FUNCTION_H_
