// The driver of the passes: it runs the rows of the table in order, and checks the results.
#ifndef NPU_PRECISION_GRAPH_PASSES_PIPELINE_H_
#define NPU_PRECISION_GRAPH_PASSES_PIPELINE_H_

#include <set>
#include <string>

#include "graph_passes/decide/decide_context.h"
#include "graph_passes/ledger.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/lib/core/status.h"

namespace npu_precision {

// Receives the graph after each pass that changed it.
class PassObserver {
 public:
  virtual ~PassObserver() = default;
  // `text` is the graph (see graph_text.h) after row `number` of the table, whose name is `pass`.
  // Row 0 is the given graph. A later run continues the numbers.
  virtual tensorflow::Status Show(int number, const std::string& pass, const std::string& text) = 0;
};

struct PipelineOptions {
  std::set<std::string> passes;      // the names of the switchable passes that are on
  std::set<std::string> named;       // those of them that the user asked for by name
  bool saturates = false;            // emulated overflow yields 65504 instead of infinity
  bool details = false;              // fill the ledger's nodes and casts, not only its totals
  bool check_changed = false;        // compare graphs: a pass that misreports a change is an error
  PassObserver* observer = nullptr;  // not owned
  int first_number = 0;              // for the observer: the number of the row before the first
};

// Applies the mode to `given`. If there is nothing to change, `changed` is false and `out` is
// `given` to the byte. After each pass that changed the graph, it is verified (verify_graph.h) and
// indexed anew. InvalidArgument is the user's mistake; any other error is ours, and `out` is then
// undefined.
tensorflow::Status RunPipeline(const tensorflow::GraphDef& given, const DecideContext& context,
                               const PipelineOptions& options, tensorflow::GraphDef* out,
                               Ledger* ledger, bool* changed);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_PIPELINE_H_
