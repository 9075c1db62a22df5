#include "graph_passes/rewrite/round_for_xla.h"

#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph_passes/graph/input_names.h"
#include "graph_passes/graph/marks.h"
#include "graph_passes/graph/registered_ops.h"
#include "tensorflow/core/framework/tensor.pb.h"

namespace npu_precision {
namespace {

using tensorflow::DataType;
using tensorflow::GraphDef;
using tensorflow::NodeDef;

constexpr char kReducePrecision[] = "XlaReducePrecision";
constexpr float kSmallestNormalHalf = 1.0f / (1 << 14);
constexpr float kSmallestHalf = 1.0f / (1 << 24);

bool IsCast(const NodeDef& node, DataType from, DataType to) {
  return IsInsertedCast(node) && node.input_size() == 1 && node.attr().at("SrcT").type() == from &&
         node.attr().at("DstT").type() == to;
}

class Rounder {
 public:
  explicit Rounder(GraphDef* graph) : graph_(*graph) {
    for (int id = 0; id < graph->node_size(); ++id) ids_[graph->node(id).name()] = id;
  }

  // Replaces pairs of Casts; returns the names of the second ones.
  std::vector<std::string> Run() {
    std::vector<std::string> rounding;
    const int size = graph_.node_size();
    for (int id = 0; id < size; ++id) {
      for (const DataType low : {tensorflow::DT_HALF, tensorflow::DT_BFLOAT16}) {
        if (!IsCast(graph_.node(id), low, tensorflow::DT_FLOAT)) continue;
        const std::string first(ParseInput(graph_.node(id).input(0)).producer);
        const NodeDef& to_low = graph_.node(ids_.at(first));
        if (!IsCast(to_low, tensorflow::DT_FLOAT, low)) continue;
        Round(std::string(to_low.input(0)), low, id);
        rounding.push_back(graph_.node(id).name());
      }
    }
    if (!rounding.empty()) DropUnread();
    return rounding;
  }

 private:
  // Makes the node round `input` to the low type.
  void Round(const std::string& input, DataType low, int id) {
    const std::string name = graph_.node(id).name();
    const bool is_half = low == tensorflow::DT_HALF;
    const std::string rounded = is_half ? absl::StrCat(name, "/normal") : name;
    NodeDef* reduced = is_half ? AddNode(id, "normal", kReducePrecision, {input})
                               : Become(id, kReducePrecision, {input});
    (*reduced->mutable_attr())["exponent_bits"].set_i(is_half ? 5 : 8);
    (*reduced->mutable_attr())["mantissa_bits"].set_i(is_half ? 10 : 7);
    if (!is_half) return;
    const auto constant = [&](const char* end, float value) {
      NodeDef* node = AddNode(id, end, "Const", {});
      node->mutable_attr()->erase("T");
      (*node->mutable_attr())["dtype"].set_type(tensorflow::DT_FLOAT);
      auto* tensor = (*node->mutable_attr())["value"].mutable_tensor();
      tensor->set_dtype(tensorflow::DT_FLOAT);
      tensor->mutable_tensor_shape();
      tensor->add_float_val(value);
      return node->name();
    };
    const auto scaled =
        AddNode(id, "scaled", "Mul", {input, constant("scale", 1 / kSmallestHalf)})->name();
    const auto whole = AddNode(id, "whole", "Rint", {scaled})->name();
    const auto small =
        AddNode(id, "small", "Mul", {whole, constant("unit", kSmallestHalf)})->name();
    const auto size = AddNode(id, "size", "Abs", {input})->name();
    const auto is_small =
        AddNode(id, "is_small", "Less", {size, constant("least", kSmallestNormalHalf)})->name();
    Become(id, "SelectV2", {is_small, small, rounded});
  }

  NodeDef* AddNode(int beside, const char* end, const char* op,
                   const std::vector<std::string>& inputs) {
    const std::string name = absl::StrCat(graph_.node(beside).name(), "/", end);
    const std::string device = graph_.node(beside).device();
    NodeDef* node = graph_.add_node();
    node->set_name(name);
    node->set_device(device);
    return Set(op, inputs, node);
  }

  NodeDef* Become(int id, const char* op, const std::vector<std::string>& inputs) {
    NodeDef* node = graph_.mutable_node(id);
    node->clear_input();
    node->clear_attr();
    return Set(op, inputs, node);
  }

  static NodeDef* Set(const char* op, const std::vector<std::string>& inputs, NodeDef* node) {
    node->set_op(op);
    for (const std::string& input : inputs) node->add_input(input);
    (*node->mutable_attr())["T"].set_type(tensorflow::DT_FLOAT);
    return node;
  }

  // Drops the Casts to a low type that no node reads any more.
  void DropUnread() {
    std::unordered_set<std::string> read;
    for (const NodeDef& node : graph_.node()) {
      for (const std::string& input : node.input()) {
        read.insert(std::string(ParseInput(input).producer));
      }
    }
    GraphDef kept;
    for (NodeDef& node : *graph_.mutable_node()) {
      const bool is_dropped = IsInsertedCast(node) && read.count(node.name()) == 0;
      if (!is_dropped) kept.add_node()->Swap(&node);
    }
    graph_.mutable_node()->Swap(kept.mutable_node());
  }

  GraphDef& graph_;
  std::unordered_map<std::string, int> ids_;
};

}  // namespace

std::vector<std::string> RoundForXla(GraphDef* graph) {
  if (RegisteredOp(kReducePrecision) == nullptr) return {};
  return Rounder(graph).Run();
}

tensorflow::Status RoundForXla(PassState* state, bool* changed) {
  const std::vector<std::string> rounding = RoundForXla(state->Editable());
  for (const std::string& name : rounding) {
    state->rewrites.push_back({"round_for_xla", name, "Cast", kReducePrecision});
  }
  *changed = !rounding.empty();
  return tensorflow::Status();
}

}  // namespace npu_precision
