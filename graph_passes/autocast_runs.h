// Runs the pipeline over a graph that autocast() marked, once for each dtype in its marks.
#ifndef NPU_PRECISION_GRAPH_PASSES_AUTOCAST_RUNS_H_
#define NPU_PRECISION_GRAPH_PASSES_AUTOCAST_RUNS_H_

#include <functional>

#include "graph_passes/pipeline.h"
#include "tensorflow/core/framework/types.pb.h"

namespace npu_precision {

struct AutocastOptions {
  // Gives the context the mixed mode that lowers to the dtype.
  std::function<tensorflow::Status(tensorflow::DataType dtype, DecideContext* context)> use_mode;
  bool only = false;  // unmarked nodes keep their dtype
};

// Applies the mode of `context` to nodes without a mark, and the mode of its mark to each other
// node. For a graph without marks, this is RunPipeline(). If there is nothing to change, `changed`
// is false and `out` is `given` to the byte.
tensorflow::Status RunWithAutocast(const tensorflow::GraphDef& given, const DecideContext& context,
                                   const PipelineOptions& options, const AutocastOptions& autocast,
                                   tensorflow::GraphDef* out, Ledger* ledger, bool* changed);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_AUTOCAST_RUNS_H_
