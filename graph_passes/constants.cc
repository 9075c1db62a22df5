#include "graph_passes/constants.h"

#include "graph_passes/marks.h"
#include "tensorflow/core/framework/attr_value.pb.h"

namespace npu_precision {

Constants::Constants(const DecideContext& context, const GraphView& view)
    : context_(context), view_(view), readers_(view.size(), 0) {
  for (int id = 0; id < view_.size(); ++id) {
    readers_[id] = view_.fanout(id).size();
    for (const std::string& input : view_.node(id).input()) {
      if (input[0] == '^') pinned_.insert(view_.IndexOf(input.substr(1)));
    }
    for (const std::string& name : ColocatedWith(view_.node(id))) {
      pinned_.insert(view_.IndexOf(name));
    }
  }
}

bool Constants::IsFixed(int id) const {
  const std::string& name = view_.node(id).name();
  return context_.preserved.count(name) != 0 || context_.fed.count(name) != 0;
}

bool Constants::HasControlInputs(int id) const {
  return view_.node(id).input_size() != view_.fanin(id).size();
}

std::vector<int> Constants::WayBack(const OutputPort& tensor) const {
  std::vector<int> way;
  int id = tensor.node;
  // The bound ends the walk on a damaged graph whose Identity nodes form a cycle.
  while (static_cast<int>(way.size()) < view_.size() && !IsFixed(id) && !HasControlInputs(id) &&
         view_.node(id).op() == "Identity") {
    way.push_back(id);
    id = view_.fanin(id)[0].node;
  }
  if (IsFixed(id) || view_.node(id).op() != "Const") return {};
  way.push_back(id);
  return way;
}

bool Constants::Value(const std::vector<int>& way, tensorflow::Tensor* value) const {
  const tensorflow::NodeDef& constant = view_.node(way.back());
  const auto found = constant.attr().find("value");
  return found != constant.attr().end() && value->FromProto(found->second.tensor());
}

void Constants::Release(const std::vector<int>& way) {
  for (int id : way) {
    if (--readers_[id] > 0 || IsPinned(id)) break;
    gone_.insert(id);
  }
}

void Constants::DropGone(tensorflow::GraphDef* graph) const {
  if (gone_.empty()) return;
  tensorflow::GraphDef kept;
  for (int id = 0; id < view_.size(); ++id) {
    if (gone_.count(id) == 0) kept.add_node()->Swap(graph->mutable_node(id));
  }
  // What was added behind the nodes that the view knows.
  for (int id = view_.size(); id < graph->node_size(); ++id) {
    kept.add_node()->Swap(graph->mutable_node(id));
  }
  graph->mutable_node()->Swap(kept.mutable_node());
}

}  // namespace npu_precision
