// The passes, in order.
#ifndef NPU_PRECISION_GRAPH_PASSES_PIPELINE_H_
#define NPU_PRECISION_GRAPH_PASSES_PIPELINE_H_

#include "graph_passes/decide/decide_context.h"
#include "graph_passes/ledger.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/lib/core/status.h"

namespace npu_precision {

struct PipelineOptions {
  bool loop_constants = false;
  bool fold_batch_norms = false;
  bool same_padding = false;
  bool sink_reshapes = false;
  bool fold_constants = false;
  bool emulate = false;  // compute in float32, round to the low type
  bool details = false;  // fill the ledger's nodes and casts, not only its totals
};

// Applies the mode to `given`. Where there is nothing to change, `out` is `given` to the byte.
// InvalidArgument is the user's mistake; any other error is ours, and `out` means nothing.
tensorflow::Status RunPipeline(const tensorflow::GraphDef& given, const DecideContext& context,
                               const PipelineOptions& options, tensorflow::GraphDef* out,
                               Ledger* ledger);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_PIPELINE_H_
