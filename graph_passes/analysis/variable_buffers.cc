#include "graph_passes/analysis/variable_buffers.h"

namespace npu_precision {
namespace {

// Keras reshapes the weights of attention once; inlined functions add Identity nodes.
constexpr int kMostViews = 8;

bool SharesBuffer(const std::string& op) {
  return op == "Identity" || op == "Reshape" || op == "Squeeze" || op == "ExpandDims";
}

}  // namespace

bool HasBufferOfVariable(const GraphView& view, const std::set<std::string>& fed,
                         OutputPort tensor) {
  for (int step = 0; step < kMostViews; ++step) {
    const tensorflow::NodeDef& node = view.node(tensor.node);
    if (fed.count(node.name()) != 0) return false;
    const std::string& op = node.op();
    if (op == "ReadVariableOp") return true;
    if (!SharesBuffer(op) || view.num_fanin(tensor.node) == 0) return false;
    tensor = view.fanin(tensor.node)[0];
  }
  return false;
}

}  // namespace npu_precision
