// The driver of the passes: runs the table's rows in order, and trusts none of them.
#ifndef NPU_PRECISION_GRAPH_PASSES_PIPELINE_H_
#define NPU_PRECISION_GRAPH_PASSES_PIPELINE_H_

#include <set>
#include <string>

#include "graph_passes/decide/decide_context.h"
#include "graph_passes/ledger.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/lib/core/status.h"

namespace npu_precision {

// Is shown the graph as passes leave it.
class PassObserver {
 public:
  virtual ~PassObserver() = default;
  // `text` is the graph (see graph_text.h) after the row `number` of the table, called `pass`; 0 is
  // the graph as it was given. Called where the graph changed.
  virtual tensorflow::Status Show(int number, const std::string& pass, const std::string& text) = 0;
};

struct PipelineOptions {
  std::set<std::string> passes;      // the options of passes that are on
  bool details = false;              // fill the ledger's nodes and casts, not only its totals
  bool check_changed = false;        // compare graphs to see whether passes tell the truth
  PassObserver* observer = nullptr;  // not owned
};

// Applies the mode to `given`. Where there is nothing to change, `out` is `given` to the byte.
// After each pass that changed the graph, it is verified (verify_graph.h), and indexed anew.
// InvalidArgument is the user's mistake; any other error is ours, and `out` means nothing.
tensorflow::Status RunPipeline(const tensorflow::GraphDef& given, const DecideContext& context,
                               const PipelineOptions& options, tensorflow::GraphDef* out,
                               Ledger* ledger);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_PIPELINE_H_
