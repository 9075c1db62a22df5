// Writes the ledger file of one graph.
#ifndef NPU_PRECISION_CC_REPORT_H_
#define NPU_PRECISION_CC_REPORT_H_

#include <string>

#include "graph_passes/ledger.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace npu_precision {

// Writes the ledger into `folder`, which is made if needed, under a new name that contains the
// worker. `path` gets the path. The graphs before and after are beside it, as PATH.before.pb and
// PATH.after.pb without the ".json": `npu-precision explain` reads the edges from them.
tensorflow::Status WriteReport(const std::string& folder, const std::string& worker,
                               const Ledger& ledger, const tensorflow::GraphDef& before,
                               const tensorflow::GraphDef& after, std::string* path);

// A name for this process. It distinguishes the ledgers of one run from those of other runs.
std::string ProcessName();

// The task that the nodes of a graph run in, as "-worker1"; "" if there are no tasks.
std::string WorkerSuffix(const tensorflow::GraphDef& graph);

}  // namespace npu_precision

#endif  // NPU_PRECISION_CC_REPORT_H_
