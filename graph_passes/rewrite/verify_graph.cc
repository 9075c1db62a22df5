#include "graph_passes/rewrite/verify_graph.h"

#include <algorithm>
#include <unordered_set>
#include <vector>

#include "graph_passes/analysis/handles.h"
#include "graph_passes/graph/dtype_names.h"
#include "graph_passes/graph/op_set.h"
#include "graph_passes/graph/op_traits.h"
#include "graph_passes/graph/quoted.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/lib/core/errors.h"

namespace npu_precision {
namespace {

using tensorflow::BaseType;
using tensorflow::DataType;
using tensorflow::Status;
using tensorflow::errors::Internal;

DataType DtypeOf(const GraphView& view, int group) { return view.group_numbered(group).dtype; }

const std::string& NodeOf(const GraphView& view, int group) {
  return view.node(view.node_of_group(group)).name();
}

// TensorFlow's own optimizers leave such an edge in the graph of a loop that never runs.
bool StoodBetween(const GraphView& before, const std::string& name, int input) {
  const int id = before.IndexOf(name);
  return id >= 0 && input < before.num_fanin(id) &&
         before.node(before.fanin(id)[input].node).op() == "NextIteration";
}

Status VerifyEdges(const GraphView& before, const GraphView& view) {
  const OpSet merges(view, IsMerge), next_iterations(view, "NextIteration");
  for (int id = 0; id < view.size(); ++id) {
    if (view.op_def(id) == nullptr) continue;
    for (int k = 0; k < view.num_fanin(id); ++k) {
      if (next_iterations.Has(view.fanin(id)[k].node) && !merges.Has(id) &&
          !StoodBetween(before, view.node(id).name(), k)) {
        return Internal("node ", Quoted(view.node(id).name()), " (", view.node(id).op(),
                        ") stands between a NextIteration and its Merge");
      }
      const DataType produced = view.dtype(view.fanin(id)[k]);
      const DataType consumed = view.inputs(id)[k].dtype;
      if (produced == tensorflow::DT_INVALID || BaseType(produced) == BaseType(consumed)) continue;
      return Internal("input ", k, " of node ", Quoted(view.node(id).name()), " is ",
                      DtypeName(consumed), " but ",
                      Quoted(view.node(view.fanin(id)[k].node).name()), " yields ",
                      DtypeName(produced));
    }
  }
  return Status();
}

std::vector<Handle> DisagreeingHandles(const GraphView& view) {
  std::vector<Handle> disagreeing;
  for (const Handle& handle : FindHandles(view, {}, {})) {
    const auto differs = [&](int group) {
      return DtypeOf(view, group) != DtypeOf(view, handle.groups.front());
    };
    if (std::any_of(handle.groups.begin(), handle.groups.end(), differs)) {
      disagreeing.push_back(handle);
    }
  }
  return disagreeing;
}

// No edge shows it: a handle whose ops disagree about its elements fails when the graph runs. If
// they disagreed before, TensorFlow reports it.
Status VerifyHandles(const GraphView& before, const GraphView& view) {
  const std::vector<Handle> disagreeing = DisagreeingHandles(view);
  if (disagreeing.empty()) return Status();
  std::unordered_set<std::string> wrong_before;
  for (const Handle& handle : DisagreeingHandles(before)) {
    for (int group : handle.groups) wrong_before.insert(NodeOf(before, group));
  }
  for (const Handle& handle : disagreeing) {
    const auto excused = [&](int group) { return wrong_before.count(NodeOf(view, group)) != 0; };
    if (std::any_of(handle.groups.begin(), handle.groups.end(), excused)) continue;
    const DataType dtype = DtypeOf(view, handle.groups.front());
    for (int group : handle.groups) {
      if (DtypeOf(view, group) == dtype) continue;
      return Internal("ops on one handle disagree about its elements: ",
                      DtypeName(DtypeOf(view, group)), " and ", DtypeName(dtype));
    }
  }
  return Status();
}

Status VerifyPreserved(const GraphView& before, const GraphView& after, const std::string& name,
                       bool is_fetched) {
  const int old_id = before.IndexOf(name);
  if (old_id < 0) return Status();
  const int id = after.IndexOf(name);
  if (id < 0) return Internal("preserved node ", Quoted(name), " is gone");
  if (!is_fetched && after.node(id).op() == "NoOp") return Status();
  bool same = before.num_outputs(old_id) == after.num_outputs(id);
  for (int p = 0; same && p < after.num_outputs(id); ++p) {
    same = before.outputs(old_id)[p].dtype == after.outputs(id)[p].dtype;
  }
  if (!same) return Internal("preserved node ", Quoted(name), " yields other dtypes");
  return Status();
}

}  // namespace

Status VerifyGraph(const GraphView& before, const std::set<std::string>& preserved,
                   const std::set<std::string>& fetched, const tensorflow::GraphDef& after,
                   GraphView* view) {
  TF_RETURN_IF_ERROR(GraphView::Build(after, view));
  TF_RETURN_IF_ERROR(VerifyEdges(before, *view));
  TF_RETURN_IF_ERROR(VerifyHandles(before, *view));
  for (const std::string& name : preserved) {
    TF_RETURN_IF_ERROR(VerifyPreserved(before, *view, name, fetched.count(name) != 0));
  }
  return Status();
}

}  // namespace npu_precision
