#include "graph_passes/rewrite/loop_carriers.h"

#include "absl/strings/str_cat.h"
#include "graph_passes/rewrite/cast_nodes.h"
#include "tensorflow/core/framework/attr_value.pb.h"

namespace npu_precision {

using tensorflow::DataType;
using tensorflow::NodeDef;

LoopCarriers::LoopCarriers(const std::set<std::string>& fed, ChangedGraph* graph)
    : graph_(*graph), view_(graph->view()), invariants_(view_, fed) {}

LoopCarriers::Key LoopCarriers::KeyOf(const Conversion& conversion, const OutputPort& tensor) {
  return Key(tensor.node, tensor.port, conversion.to, conversion.rounds);
}

std::string LoopCarriers::Find(const Conversion& conversion, const OutputPort& tensor) const {
  const auto found = carried_.find(KeyOf(conversion, tensor));
  return found == carried_.end() ? "" : found->second;
}

std::string LoopCarriers::Carry(const Conversion& conversion, const OutputPort& tensor,
                                const std::string& outside) {
  const OutputPort enter = {EnterOf(tensor), 0};
  std::string& entered = carried_[KeyOf(conversion, enter)];
  if (entered.empty()) {
    entered = graph_.CastName(enter, conversion.dtype());
    NodeDef* carrier = AddCarrier(entered, enter.node, outside, conversion.dtype());
    (*carrier->mutable_attr())["is_constant"].set_b(true);
  }
  std::string& carried = carried_[KeyOf(conversion, tensor)];
  if (carried.empty()) carried = AddCarrierOf(tensor, entered, conversion.dtype());
  return carried;
}

// A copy of an Identity or Switch has a control dependency on the original, so it runs after the
// same nodes, and is dead if the original is.
std::string LoopCarriers::AddCarrierOf(const OutputPort& tensor, const std::string& entered,
                                       DataType dtype) {
  const std::string& op = view_.node(tensor.node).op();
  if (op != "Switch" && op != "Identity") return entered;
  const std::string name = graph_.CastName(tensor, dtype);
  NodeDef* carrier = AddCarrier(name, tensor.node, entered, dtype);
  while (carrier->input_size() > view_.num_fanin(tensor.node))
    carrier->mutable_input()->RemoveLast();
  carrier->add_input(absl::StrCat("^", graph_.node(tensor.node).name()));
  return InputName(name, tensor.port);
}

NodeDef* LoopCarriers::AddCarrier(const std::string& name, int id, const std::string& input,
                                  DataType dtype) {
  NodeDef* carrier = graph_.AddCopy(name, id);
  carrier->set_input(0, input);
  (*carrier->mutable_attr())["T"].set_type(dtype);
  return carrier;
}

}  // namespace npu_precision
