// The nodes of a graph whose ops have something in common. A graph has few ops and many nodes, so a
// pass asks about each op once.
#ifndef NPU_PRECISION_GRAPH_PASSES_GRAPH_OP_SET_H_
#define NPU_PRECISION_GRAPH_PASSES_GRAPH_OP_SET_H_

#include <algorithm>
#include <string>
#include <vector>

#include "graph_passes/graph/graph_view.h"

namespace npu_precision {

class OpSet {
 public:
  OpSet(const GraphView& view, bool belongs(const std::string& op)) : view_(view) {
    for (int op = 0; op < view.num_ops(); ++op) has_.push_back(belongs(view.op_numbered(op).name));
  }
  // `op_def` is nullptr for an op that TensorFlow does not know.
  OpSet(const GraphView& view, bool belongs(const std::string& op, const tensorflow::OpDef* op_def))
      : view_(view) {
    for (int number = 0; number < view.num_ops(); ++number) {
      const GraphView::Op& op = view.op_numbered(number);
      has_.push_back(belongs(op.name, op.op_def));
    }
  }
  OpSet(const GraphView& view, const char* name) : view_(view) {
    for (int op = 0; op < view.num_ops(); ++op) has_.push_back(view.op_numbered(op).name == name);
  }

  bool Has(int id) const { return has_[view_.op(id)]; }
  // The ids of its nodes, in their order.
  std::vector<int> Ids() const {
    std::vector<int> ids;
    for (int id = 0; id < view_.size(); ++id) {
      if (Has(id)) ids.push_back(id);
    }
    return ids;
  }
  bool IsEmpty() const { return std::find(has_.begin(), has_.end(), true) == has_.end(); }

 private:
  const GraphView& view_;
  std::vector<bool> has_;  // by op
};

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_GRAPH_OP_SET_H_
