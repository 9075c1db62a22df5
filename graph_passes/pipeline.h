// The driver of the passes: it runs the rows of the table in order, and checks what they do.
#ifndef NPU_PRECISION_GRAPH_PASSES_PIPELINE_H_
#define NPU_PRECISION_GRAPH_PASSES_PIPELINE_H_

#include <set>
#include <string>

#include "graph_passes/decide/decide_context.h"
#include "graph_passes/ledger.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/lib/core/status.h"

namespace npu_precision {

// Gets the graph after each pass that changed it.
class PassObserver {
 public:
  virtual ~PassObserver() = default;
  // `text` is the graph (see graph_text.h) after row `number` of the table, whose name is `pass`.
  // Row 0 is the given graph. A run after another counts on.
  virtual tensorflow::Status Show(int number, const std::string& pass, const std::string& text) = 0;
};

struct PipelineOptions {
  std::set<std::string> passes;      // of those that can be switched, the names of what is on
  bool saturates = false;            // emulated overflow yields 65504, and not infinity
  bool details = false;              // fill the ledger's nodes and casts, not only its totals
  bool check_changed = false;        // compare graphs: an error if a pass misreports a change
  PassObserver* observer = nullptr;  // not owned
  int first_number = 0;              // of the row before the first, for the observer
};

// Applies the mode to `given`. If there is nothing to change, `changed` is false and `out` is
// `given` to the byte. The graph is verified (verify_graph.h) and indexed anew after each pass that
// changed it. InvalidArgument is the user's mistake; any other error is ours, and `out` means
// nothing.
tensorflow::Status RunPipeline(const tensorflow::GraphDef& given, const DecideContext& context,
                               const PipelineOptions& options, tensorflow::GraphDef* out,
                               Ledger* ledger, bool* changed);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_PIPELINE_H_
