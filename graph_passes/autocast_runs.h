// A graph in which autocast() marked nodes: the pipeline runs once for each dtype that they ask
// for.
#ifndef NPU_PRECISION_GRAPH_PASSES_AUTOCAST_RUNS_H_
#define NPU_PRECISION_GRAPH_PASSES_AUTOCAST_RUNS_H_

#include <functional>

#include "graph_passes/pipeline.h"
#include "tensorflow/core/framework/types.pb.h"

namespace npu_precision {

struct AutocastOptions {
  // Makes the given context that of the mixed mode which lowers to the dtype.
  std::function<tensorflow::Status(tensorflow::DataType dtype, DecideContext* context)> use_mode;
  bool only = false;  // unmarked nodes keep their dtype
};

// Applies the mode of `context` to nodes without a mark, and to the others that of their mark. A
// graph without marks is RunPipeline()'s. If there is nothing to change, `out` is `given` to the
// byte.
tensorflow::Status RunWithAutocast(const tensorflow::GraphDef& given, const DecideContext& context,
                                   const PipelineOptions& options, const AutocastOptions& autocast,
                                   tensorflow::GraphDef* out, Ledger* ledger);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_AUTOCAST_RUNS_H_
