#include "graph_passes/rewrite/constants.h"

#include <algorithm>
#include <string>

#include "graph_passes/graph/control_inputs.h"
#include "graph_passes/graph/marks.h"

namespace npu_precision {
namespace {

// A frozen variable is an Identity of a constant; lowered, it also has a Cast.
constexpr int kMostCopies = 8;

}  // namespace

const tensorflow::TensorShapeProto* ShapeOfConstant(const GraphView& view,
                                                    const ConstantValues& values,
                                                    const std::set<std::string>& fed,
                                                    OutputPort tensor) {
  for (int step = 0; step < kMostCopies; ++step) {
    const tensorflow::NodeDef& node = view.node(tensor.node);
    if (fed.count(node.name()) != 0) return nullptr;
    if (node.op() == "Const") {
      const tensorflow::AttrValue* value = values.Find(node);
      return value == nullptr ? nullptr : &value->tensor().tensor_shape();
    }
    if ((node.op() != "Identity" && node.op() != "Cast") || view.num_fanin(tensor.node) == 0) {
      return nullptr;
    }
    tensor = view.fanin(tensor.node)[0];
  }
  return nullptr;
}

Constants::Constants(const DecideContext& context, const GraphView& view, ConstantValues* values)
    : context_(context),
      view_(view),
      values_(values),
      readers_(view.size(), 0),
      is_control_producer_(ControlProducers(view)) {
  for (int id = 0; id < view_.size(); ++id) {
    readers_[id] = view_.fanout(id).size();
    for (int other : ColocatedNodes(id)) ++colocated_[other];
  }
}

std::vector<int> Constants::ColocatedNodes(int id) const {
  std::vector<int> nodes;
  for (const std::string& name : ColocatedWith(view_.node(id))) {
    const int other = view_.IndexOf(name);
    if (other != id) nodes.push_back(other);
  }
  return nodes;
}

bool Constants::IsFixed(int id) const { return context_.IsFixed(view_.node(id).name()); }

std::vector<int> Constants::PathBack(const OutputPort& tensor) const {
  std::vector<int> path;
  int id = tensor.node;
  // The bound ends the walk on a damaged graph whose Identity nodes form a cycle.
  while (static_cast<int>(path.size()) < view_.size() && !IsFixed(id) &&
         !HasControlInputs(view_, id) && view_.node(id).op() == "Identity") {
    path.push_back(id);
    id = view_.fanin(id)[0].node;
  }
  if (IsFixed(id) || view_.node(id).op() != "Const") return {};
  path.push_back(id);
  return path;
}

const tensorflow::TensorProto* Constants::Value(const std::vector<int>& path) const {
  const tensorflow::AttrValue* value = values_->Find(view_.node(path.back()));
  return value == nullptr ? nullptr : &value->tensor();
}

void Constants::Release(const std::vector<int>& path) {
  const bool has_control_inputs = HasControlInputs(view_, path.back());
  for (int id : path) {
    if (--readers_[id] > 0 || HasColocated(id)) break;
    if (has_control_inputs && is_control_producer_[id]) break;
    Remove(id);
    if (id == path.back()) values_->Forget(view_.node(id));
    if (is_control_producer_[id]) removed_inputs_.insert("^" + view_.node(id).name());
  }
}

void Constants::Remove(int id) {
  removed_.insert(id);
  for (int other : ColocatedNodes(id)) --colocated_[other];
}

void Constants::DropControlInputs(tensorflow::NodeDef* node) const {
  if (removed_inputs_.empty()) return;
  auto* inputs = node->mutable_input();
  inputs->erase(std::remove_if(
                    inputs->begin(), inputs->end(),
                    [this](const std::string& input) { return removed_inputs_.count(input) != 0; }),
                inputs->end());
}

void Constants::DropRemoved(tensorflow::GraphDef* graph) const {
  if (removed_.empty()) return;
  tensorflow::GraphDef kept;
  for (int id = 0; id < graph->node_size(); ++id) {
    if (removed_.count(id) != 0) continue;
    tensorflow::NodeDef* node = kept.add_node();
    node->Swap(graph->mutable_node(id));
    DropControlInputs(node);
  }
  graph->mutable_node()->Swap(kept.mutable_node());
}

std::vector<int> Constants::CopyKept(const tensorflow::GraphDef& graph,
                                     tensorflow::GraphDef* out) const {
  CopyAllButNodes(graph, out);
  std::vector<int> index(view_.size(), -1);
  for (int id = 0; id < view_.size(); ++id) {
    if (removed_.count(id) != 0) continue;
    index[id] = out->node_size();
    tensorflow::NodeDef* node = out->add_node();
    CopyWithoutValue(graph.node(id), node);
    DropControlInputs(node);
  }
  return index;
}

}  // namespace npu_precision
