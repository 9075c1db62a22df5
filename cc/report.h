// One graph's ledger file.
#ifndef NPU_PRECISION_CC_REPORT_H_
#define NPU_PRECISION_CC_REPORT_H_

#include <string>

#include "graph_passes/ledger.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace npu_precision {

// Writes the ledger into `folder`, which is made if need be, under a new name, which has the worker
// in it. `path` gets the path. Beside it are the graphs before and after, as PATH.before.pb and
// PATH.after.pb without the ".json": `npu-precision explain` reads what feeds what from them.
tensorflow::Status WriteReport(const std::string& folder, const std::string& worker,
                               const Ledger& ledger, const tensorflow::GraphDef& before,
                               const tensorflow::GraphDef& after, std::string* path);

// A name for this process, by which the ledgers of one run are told apart from those of others.
std::string ProcessName();

// The task that the nodes of a graph run in, as "-worker1"; "" where there are no tasks.
std::string WorkerSuffix(const tensorflow::GraphDef& graph);

}  // namespace npu_precision

#endif  // NPU_PRECISION_CC_REPORT_H_
