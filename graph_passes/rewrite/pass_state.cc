#include "graph_passes/rewrite/pass_state.h"

#include <algorithm>

#include "graph_passes/graph/marks.h"
#include "tensorflow/core/lib/core/errors.h"

namespace npu_precision {
namespace {

using tensorflow::GraphDef;
using tensorflow::Status;

bool FeedsInserted(const GraphView& view, const std::set<std::string>& fed) {
  return std::any_of(fed.begin(), fed.end(), [&view](const std::string& name) {
    const int id = view.IndexOf(name);
    return id >= 0 && view.IsInserted(id);
  });
}

}  // namespace

Status PassState::Start(const GraphDef& given) {
  as_given_ = &given;
  current_ = Add();
  current_->graph = &given;
  TF_RETURN_IF_ERROR(GraphView::Build(given, &current_->view));
  values.Add(given);
  if (!FeedsInserted(current_->view, context.fed)) return Status();
  CopyWithoutValues(given, &current_->own);
  UnmarkInserted(context.fed, &current_->own);
  current_->graph = &current_->own;
  return GraphView::Build(current_->own, &current_->view);
}

PassState::Snapshot* PassState::Add() {
  snapshots_.emplace_back();
  return &snapshots_.back();
}

GraphDef* PassState::NewGraph() {
  next_ = Add();
  next_->graph = &next_->own;
  return &next_->own;
}

GraphDef* PassState::Copied() {
  if (next_ == nullptr) CopyWithoutValues(graph(), NewGraph());
  return &next_->own;
}

void PassState::TakeNewGraph(bool changed) {
  if (next_ == nullptr) return;
  if (changed) {
    current_ = next_;
  } else {
    snapshots_.pop_back();
  }
  next_ = nullptr;
}

void PassState::MoveTo(GraphDef* out) {
  out->Swap(&current_->own);
  values.Restore(out);
}

Status PassState::Own() {
  // If nothing has changed, starts from the caller's graph, including the marks of fed nodes.
  const bool is_as_given = current_ == &snapshots_.front();
  // The decisions refer to the nodes of their graph, so that graph stays as it is.
  if (!is_as_given && current_->graph != decided.graph) return Status();
  const GraphDef& from = is_as_given ? *as_given_ : graph();
  CopyWithoutValues(from, NewGraph());
  TakeNewGraph(true);
  return GraphView::Build(current_->own, &current_->view);
}

}  // namespace npu_precision
