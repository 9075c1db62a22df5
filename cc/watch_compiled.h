// Watches what XLA compiles, for a flight recorder.
//
// Before: y = call(x).
// After:  now = NpuPrecisionRecords()
//         plain, watched = Switch(x, now)
//         y = Merge(call(plain), call_counted(watched)), and NpuPrecisionWatchCounts() reads the
//         counts, which are a further result of call_counted().
//
// So a step that is not recorded runs the code that it ran without a recorder.
#ifndef NPU_PRECISION_CC_WATCH_COMPILED_H_
#define NPU_PRECISION_CC_WATCH_COMPILED_H_

#include <set>
#include <string>

#include "graph_passes/analysis/watched_tensors.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/lib/core/status.h"

namespace npu_precision {

// Whether a node of that name was added to watch a call.
bool IsOfWatchedCall(const std::string& name);

// Watches every function that XLA compiles and a node calls, but for calls in `fed`, whose results
// the caller replaces. The results of calls in `fetched` are read by the names of the calls.
tensorflow::Status WatchCompiled(Watch watch, const std::set<std::string>& fetched,
                                 const std::set<std::string>& fed, tensorflow::GraphDef* graph);

}  // namespace npu_precision

#endif  // NPU_PRECISION_CC_WATCH_COMPILED_H_
