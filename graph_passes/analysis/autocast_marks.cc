#include "graph_passes/analysis/autocast_marks.h"

#include <vector>

#include "graph_passes/analysis/forward_names.h"
#include "graph_passes/graph/marks.h"
#include "graph_passes/graph/op_set.h"

namespace npu_precision {
namespace {

using tensorflow::DataType;
using tensorflow::DT_INVALID;

constexpr int kNone = -1;

class Spreader {
 public:
  explicit Spreader(const GraphView& view)
      : view_(view),
        identities_(view, "Identity"),
        marks_(view.size(), DT_INVALID),
        is_known_(view.size(), false) {}

  // The mark of a node, or of the one that it belongs to. Names of forward ops are shorter, and an
  // Identity that copies itself by way of a loop is known when it is met again.
  DataType MarkOf(int id) {
    std::vector<int> chain;
    DataType mark = DT_INVALID;
    for (int node = id; node != kNone; node = BelongsTo(node)) {
      mark = is_known_[node] ? marks_[node] : AutocastMark(view_.node(node));
      if (is_known_[node] || mark != DT_INVALID) break;
      is_known_[node] = true;
      chain.push_back(node);
    }
    for (int node : chain) marks_[node] = mark;
    return mark;
  }

 private:
  int BelongsTo(int id) const {
    for (const std::string& name : ForwardNames(view_.node(id).name())) {
      const int forward = view_.IndexOf(name);
      if (forward >= 0 && forward != id) return forward;
    }
    if (!identities_.Has(id) || view_.num_inputs(id) == 0) return kNone;
    return view_.fanin(id)[0].node;
  }

  const GraphView& view_;
  const OpSet identities_;
  std::vector<DataType> marks_;  // by node id, of those known
  std::vector<bool> is_known_;
};

}  // namespace

std::set<DataType> AutocastDtypes(const tensorflow::GraphDef& graph) {
  std::set<DataType> dtypes;
  for (const tensorflow::NodeDef& node : graph.node()) dtypes.insert(AutocastMark(node));
  dtypes.erase(DT_INVALID);
  return dtypes;
}

void SpreadAutocastMarks(const GraphView& view, tensorflow::GraphDef* graph) {
  Spreader spreader(view);
  for (int id = 0; id < view.size(); ++id) {
    const DataType mark = spreader.MarkOf(id);
    if (mark != DT_INVALID) MarkAutocast(mark, graph->mutable_node(id));
  }
}

}  // namespace npu_precision
