#include "cc/kept_values.h"

#include "graph_passes/graph/function_ops.h"
#include "graph_passes/graph/input_names.h"
#include "graph_passes/graph/marks.h"
#include "graph_passes/graph/op_traits.h"
#include "tensorflow/core/framework/attr_value.pb.h"

namespace npu_precision {
namespace {

using tensorflow::GraphDef;
using tensorflow::NodeDef;

int IndexOf(const NodeDef& node) {
  const auto index = node.attr().find("index");
  return index == node.attr().end() ? -1 : static_cast<int>(index->second.i());
}

}  // namespace

void MarkKept(const std::vector<bool>& kept, GraphDef* body) {
  for (NodeDef& node : *body->mutable_node()) {
    if (!IsArgument(node.op())) continue;
    const int index = IndexOf(node);
    if (index >= 0 && index < static_cast<int>(kept.size()) && kept[index]) {
      MarkKeptArgument(&node);
    }
  }
}

KeptValues::KeptValues(const GraphDef& body) : body_(body) {
  for (const NodeDef& node : body.node()) nodes_[node.name()] = &node;
}

std::vector<Kept> KeptValues::Arguments(const NodeDef& node) const {
  std::vector<Kept> kept;
  // The first input of a branch chooses it.
  const int first = IsChoice(node.op()) ? 1 : 0;
  if (first == 0 && !IsLoop(node.op()) && !IsCall(node.op())) return kept;
  const auto types = node.attr().find(IsLoop(node.op()) ? "T" : "Tin");
  if (types == node.attr().end()) return kept;
  const auto& list = types->second.list();
  for (int i = 0; i < list.type_size() && first + i < node.input_size(); ++i) {
    const bool is_float = list.type(i) == tensorflow::DT_FLOAT;
    kept.push_back(is_float ? Of(node.input(first + i)) : Kept::kNo);
  }
  return kept;
}

std::vector<Kept> KeptValues::Results() const {
  std::vector<Kept> kept;
  for (const NodeDef& node : body_.node()) {
    const int index = IndexOf(node);
    if (!IsResult(node.op()) || index < 0) continue;
    if (index >= static_cast<int>(kept.size())) kept.resize(index + 1, Kept::kNo);
    const auto type = node.attr().find("T");
    const bool is_float = type != node.attr().end() && type->second.type() == tensorflow::DT_FLOAT;
    if (is_float) kept[index] = Of(node.input(0));
  }
  return kept;
}

std::vector<bool> KeptValues::Invariant() const {
  std::vector<bool> invariant;
  for (const NodeDef& node : body_.node()) {
    const int index = IndexOf(node);
    if (!IsResult(node.op()) || index < 0) continue;
    if (index >= static_cast<int>(invariant.size())) invariant.resize(index + 1, false);
    const NodeDef* producer = ProducerOf(node.input(0));
    invariant[index] =
        producer != nullptr && IsArgument(producer->op()) && IndexOf(*producer) == index;
  }
  return invariant;
}

const NodeDef* KeptValues::ProducerOf(const std::string& input) const {
  std::string tensor = input;
  for (size_t i = 0; i <= nodes_.size(); ++i) {
    const auto found = nodes_.find(std::string(ParseInput(tensor).producer));
    if (found == nodes_.end()) return nullptr;
    if (found->second->op() != "Identity") return found->second;
    tensor = found->second->input(0);
  }
  return nullptr;
}

Kept KeptValues::Of(const std::string& input) const {
  const NodeDef* node = ProducerOf(input);
  if (node == nullptr || IsInsertedCast(*node)) return Kept::kNo;
  if (!IsNeutralSource(node->op())) return Kept::kYes;
  return HasKeptArgumentMark(*node) ? Kept::kYes : Kept::kNeutral;
}

}  // namespace npu_precision
