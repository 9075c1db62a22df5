#include "graph_passes/graph/constant_values.h"

#include "tensorflow/core/framework/tensor.pb.h"

namespace npu_precision {
namespace {

using tensorflow::AttrValue;
using tensorflow::GraphDef;
using tensorflow::NodeDef;

constexpr char kValue[] = "value";

// In bytes of tensor_content. Values in other fields are short.
constexpr size_t kLarge = 1024;

const AttrValue* LargeValue(const NodeDef& node) {
  if (node.op() != "Const") return nullptr;
  const auto value = node.attr().find(kValue);
  const bool is_large =
      value != node.attr().end() && value->second.tensor().tensor_content().size() >= kLarge;
  return is_large ? &value->second : nullptr;
}

// Copies a message field that only later TensorFlows have.
template <typename Message>
void CopyField(const char* name, const Message& from, Message* to) {
  const auto* field = Message::descriptor()->FindFieldByName(name);
  const auto* reflection = Message::GetReflection();
  if (field == nullptr || !reflection->HasField(from, field)) return;
  reflection->MutableMessage(to, field)->CopyFrom(reflection->GetMessage(from, field));
}

}  // namespace

void CopyWithoutValue(const NodeDef& from, NodeDef* to) {
  if (LargeValue(from) == nullptr) {
    *to = from;
    return;
  }
  to->set_name(from.name());
  to->set_op(from.op());
  to->set_device(from.device());
  *to->mutable_input() = from.input();
  for (const auto& attr : from.attr()) {
    if (attr.first != kValue) (*to->mutable_attr())[attr.first] = attr.second;
  }
  if (from.has_experimental_debug_info()) {
    *to->mutable_experimental_debug_info() = from.experimental_debug_info();
  }
  CopyField("experimental_type", from, to);
}

void CopyAllButNodes(const GraphDef& from, GraphDef* to) {
  if (from.has_library()) *to->mutable_library() = from.library();
  if (from.has_versions()) *to->mutable_versions() = from.versions();
  to->set_version(from.version());
  CopyField("debug_info", from, to);
}

void CopyWithoutValues(const GraphDef& from, GraphDef* to) {
  CopyAllButNodes(from, to);
  to->mutable_node()->Reserve(from.node_size());
  for (const NodeDef& node : from.node()) CopyWithoutValue(node, to->add_node());
}

void ConstantValues::Add(const GraphDef& graph) {
  for (const NodeDef& node : graph.node()) {
    const AttrValue* value = LargeValue(node);
    if (value != nullptr) places_[node.name()] = {value, nullptr};
  }
}

void ConstantValues::AddOwn(GraphDef* graph) {
  for (NodeDef& node : *graph->mutable_node()) {
    if (LargeValue(node) == nullptr) continue;
    AttrValue* value = &node.mutable_attr()->at(kValue);
    places_[node.name()] = {value, value};
  }
}

const AttrValue* ConstantValues::Find(const NodeDef& constant) const {
  const auto value = constant.attr().find(kValue);
  if (value != constant.attr().end()) return &value->second;
  const auto place = places_.find(constant.name());
  return place == places_.end() ? nullptr : place->second.value;
}

void ConstantValues::Forget(const NodeDef& constant) {
  const auto place = places_.find(constant.name());
  if (place == places_.end()) return;
  if (place->second.own != nullptr) place->second.own->Clear();
  places_.erase(place);
}

void ConstantValues::Restore(GraphDef* graph) {
  if (places_.empty()) return;
  for (NodeDef& node : *graph->mutable_node()) {
    if (node.op() != "Const" || node.attr().count(kValue) != 0) continue;
    const auto place = places_.find(node.name());
    if (place == places_.end()) continue;
    AttrValue& value = (*node.mutable_attr())[kValue];
    if (place->second.own != nullptr) {
      value.Swap(place->second.own);
    } else {
      value = *place->second.value;
    }
  }
}

}  // namespace npu_precision
