// The state of the pipeline that each pass receives: the current graph, the decisions about it, and
// the results of the passes.
#ifndef NPU_PRECISION_GRAPH_PASSES_REWRITE_PASS_STATE_H_
#define NPU_PRECISION_GRAPH_PASSES_REWRITE_PASS_STATE_H_

#include <list>
#include <set>
#include <string>
#include <vector>

#include "graph_passes/decide/decide_context.h"
#include "graph_passes/decide/decision.h"
#include "graph_passes/graph/constant_values.h"
#include "graph_passes/graph/graph_view.h"
#include "graph_passes/rewrite/collective_entry.h"
#include "graph_passes/rewrite/rewrite_entry.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/lib/core/status.h"

namespace npu_precision {

struct Ledger;  // ledger.h, which knows all rooms

// The decisions, and their graph, in which fused ops may be split.
struct Decided {
  const tensorflow::GraphDef* graph = nullptr;
  const GraphView* view = nullptr;
  Decisions decisions;
  bool found_fused_ops = false;
};

class PassState {
 public:
  // `context` must outlive this object. `emulates`: the last pass undoes the dtypes and rounds.
  // `saturates`: rounded values stay finite.
  PassState(const DecideContext& context, bool emulates, bool saturates)
      : context(context), emulates(emulates), saturates(saturates), preserved(context.preserved) {}

  // Begins with `given`, which must outlive this object. Removes the mark of inserted nodes from
  // nodes that the caller feeds, because passes look through nodes with that mark.
  tensorflow::Status Start(const tensorflow::GraphDef& given);

  // The graph as it is now, without the large values that `values` holds, and its index.
  const tensorflow::GraphDef& graph() const { return *current_->graph; }
  const GraphView& view() const { return current_->view; }
  // The index of the graph as it was given.
  const GraphView& given() const { return snapshots_.front().view; }

  // For a pass that writes the whole graph anew: returns an empty graph. It replaces graph() after
  // the pass, if the pass reports a change.
  tensorflow::GraphDef* NewGraph();
  // For a pass that edits nodes and learns late whether it edits any: a copy of graph(), made at
  // the first call. Nodes of the copy have the ids of view().
  tensorflow::GraphDef* Copied();
  // For a pass that changes nodes in place: graph(), once Own() was called. view() sees the changed
  // nodes, but keeps the edges, names and dtypes from before the pass.
  tensorflow::GraphDef* Editable() { return &current_->own; }

  // For the driver. Own() makes graph() a copy that may be edited. TakeNewGraph() makes the new
  // graph, if there is one, the current one, or discards it. MoveTo() moves the graph, with all
  // values, into `out`.
  tensorflow::Status Own();
  void TakeNewGraph(bool changed);
  void MoveTo(tensorflow::GraphDef* out);
  GraphView* mutable_view() { return &current_->view; }

  const DecideContext& context;
  const bool emulates, saturates;
  bool is_named = false;  // whether the user asked for the pass that runs by its name
  ConstantValues values;
  std::set<std::string> preserved;  // a pass that changes the dtype of an output removes its node
  Decided decided;
  // For decide: the graph with fused ops split, and its index. Other passes do not see it.
  tensorflow::GraphDef planned;
  GraphView planned_view;
  // Products of weights and a vector of their last dimensions, in this order, which a pass wrote.
  std::set<std::string> scaled_weights;
  std::vector<RewriteEntry> rewrites;  // changes of passes besides dtypes
  std::vector<MissedRewrite> missed;   // what passes looked for, and could not change
  std::vector<CollectiveEntry> collectives;
  Ledger* ledger = nullptr;  // for the pass that fills it
  bool details = false;      // whether the ledger lists every node and Cast

 private:
  struct Snapshot {
    const tensorflow::GraphDef* graph = nullptr;  // &own, or the caller's
    tensorflow::GraphDef own;
    GraphView view;
  };
  Snapshot* Add();

  std::list<Snapshot> snapshots_;  // earlier ones stay: decisions, views and values refer to them
  Snapshot* current_ = nullptr;
  Snapshot* next_ = nullptr;
  const tensorflow::GraphDef* as_given_ = nullptr;  // the caller's
};

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_REWRITE_PASS_STATE_H_
