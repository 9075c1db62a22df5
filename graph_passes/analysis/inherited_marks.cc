#include "graph_passes/analysis/inherited_marks.h"

#include <string>
#include <vector>

#include "graph_passes/analysis/forward_names.h"
#include "graph_passes/graph/marks.h"
#include "graph_passes/graph/op_set.h"

namespace npu_precision {
namespace {

using tensorflow::DataType;

constexpr int kNone = -1;
constexpr int kUnknown = -2;

class Heirs {
 public:
  explicit Heirs(const GraphView& view)
      : view_(view), identities_(view, "Identity"), from_(view.size(), kUnknown) {}

  // The node that a node has its marks from: itself, the node that it belongs to, or kNone. The
  // recursion ends: names of forward ops are shorter, and a loop of Identity nodes is detected.
  int From(int id) {
    std::vector<int> chain;
    int from = kNone;
    for (int node = id; node != kNone; node = BelongsTo(node)) {
      if (from_[node] != kUnknown) {
        from = from_[node];
        break;
      }
      if (HasInheritedMark(view_.node(node))) {
        from = node;
        break;
      }
      from_[node] = kNone;
      chain.push_back(node);
    }
    for (int node : chain) from_[node] = from;
    return from;
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
  std::vector<int> from_;  // by node id
};

}  // namespace

bool HasInheritedMarks(const tensorflow::GraphDef& graph) {
  for (const tensorflow::NodeDef& node : graph.node()) {
    if (HasInheritedMark(node)) return true;
  }
  return false;
}

std::set<DataType> AutocastDtypes(const tensorflow::GraphDef& graph) {
  std::set<DataType> dtypes;
  for (const tensorflow::NodeDef& node : graph.node()) dtypes.insert(AutocastMark(node));
  dtypes.erase(tensorflow::DT_INVALID);
  return dtypes;
}

void InheritMarks(const GraphView& view, tensorflow::GraphDef* graph) {
  Heirs heirs(view);
  for (int id = 0; id < view.size(); ++id) {
    const int from = heirs.From(id);
    if (from != kNone && from != id) InheritMarks(view.node(from), graph->mutable_node(id));
  }
}

}  // namespace npu_precision
