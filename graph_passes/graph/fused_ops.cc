#include "graph_passes/graph/fused_ops.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "graph_passes/graph/constant_values.h"
#include "graph_passes/graph/registered_ops.h"
#include "tensorflow/core/framework/attr_value.pb.h"

namespace npu_precision {
namespace {

using tensorflow::AttrValue;
using tensorflow::GraphDef;
using tensorflow::NodeDef;

constexpr char kPart[] = "/npu_part_";

// Fused contraction -> the contraction.
const char* ContractionOf(const std::string& op) {
  if (op == "_FusedConv2D") return "Conv2D";
  if (op == "_FusedDepthwiseConv2dNative") return "DepthwiseConv2dNative";
  if (op == "_FusedConv3D") return "Conv3D";
  if (op == "_FusedMatMul") return "MatMul";
  return nullptr;
}

// The op type for the remapper's name of a fused op; "" if there is none.
std::string OpOfFused(const std::string& fused) {
  if (fused == "FusedBatchNorm") return "FusedBatchNormV3";
  if (fused == "Add") return "AddV2";
  for (const char* op : {"BiasAdd", "Relu", "Relu6", "Elu", "LeakyRelu", "Tanh", "Sigmoid"}) {
    if (fused == op) return fused;
  }
  return "";
}

const AttrValue* Find(const NodeDef& node, const char* name) {
  const auto found = node.attr().find(name);
  return found == node.attr().end() ? nullptr : &found->second;
}

std::vector<std::string> FusedNames(const NodeDef& node) {
  std::vector<std::string> names;
  const AttrValue* fused = Find(node, "fused_ops");
  if (fused == nullptr) return names;
  for (const std::string& name : fused->list().s()) names.push_back(name);
  return names;
}

std::string ActivationOfBatchNorm(const NodeDef& node) {
  const AttrValue* mode = Find(node, "activation_mode");
  return mode == nullptr || mode->s() == "Identity" ? "" : mode->s();
}

bool HasSideInput(const NodeDef& node) {
  const AttrValue* count = Find(node, "num_side_inputs");
  return count != nullptr && count->i() == 1;
}

void CopyDeclaredAttrs(const NodeDef& from, NodeDef* to) {
  const tensorflow::OpDef* op_def = RegisteredOp(to->op());
  if (op_def == nullptr) return;
  for (const auto& attr : op_def->attr()) {
    const AttrValue* value = Find(from, attr.name().c_str());
    if (value != nullptr) (*to->mutable_attr())[attr.name()] = *value;
  }
}

// Grappler's optimizers read attributes with defaults without checking that they exist.
void AddDefaultAttrs(NodeDef* node) {
  const tensorflow::OpDef* op_def = RegisteredOp(node->op());
  if (op_def == nullptr) return;
  for (const auto& attr : op_def->attr()) {
    if (!attr.has_default_value() || Find(*node, attr.name().c_str()) != nullptr) continue;
    (*node->mutable_attr())[attr.name()] = attr.default_value();
  }
}

// Writes one fused node as its parts.
class Expander {
 public:
  explicit Expander(const NodeDef& node) : node_(node) {
    for (const std::string& input : node.input()) {
      (absl::StartsWith(input, "^") ? controls_ : data_).push_back(input);
    }
  }

  // Returns false, and leaves `parts` unchanged, if the node cannot be written as parts.
  bool Run(std::vector<NodeDef>* parts) {
    parts_.clear();
    if (!(node_.op() == "_FusedBatchNormEx" ? BatchNorm() : Contraction())) return false;
    parts_.back().set_name(node_.name());
    for (const auto& attr : node_.attr()) {
      if (!absl::StartsWith(attr.first, "_") || attr.first == "_output_shapes") continue;
      for (NodeDef& part : parts_) (*part.mutable_attr())[attr.first] = attr.second;
    }
    for (NodeDef& part : parts_) AddDefaultAttrs(&part);
    for (const std::string& control : controls_) parts_.front().add_input(control);
    *parts = std::move(parts_);
    return true;
  }

 private:
  NodeDef* Add(const std::string& op, const std::vector<std::string>& inputs) {
    NodeDef part;
    part.set_name(absl::StrCat(node_.name(), kPart, parts_.size()));
    part.set_op(op);
    part.set_device(node_.device());
    for (const std::string& input : inputs) part.add_input(input);
    CopyDeclaredAttrs(node_, &part);
    parts_.push_back(std::move(part));
    return &parts_.back();
  }

  std::string Last() const { return parts_.back().name(); }

  bool Contraction() {
    const AttrValue* host_args = Find(node_, "num_host_args");
    if (data_.size() < 2 || (host_args != nullptr && host_args->i() != 0)) return false;
    Add(ContractionOf(node_.op()), {data_[0], data_[1]});
    size_t next = 2;
    for (const std::string& fused : FusedNames(node_)) {
      const std::string op = OpOfFused(fused);
      const size_t arguments = fused == "FusedBatchNorm"              ? 4
                               : fused == "BiasAdd" || fused == "Add" ? 1
                                                                      : 0;
      if (op.empty() || next + arguments > data_.size()) return false;
      std::vector<std::string> inputs = {Last()};
      for (size_t i = 0; i < arguments; ++i) inputs.push_back(data_[next++]);
      NodeDef* part = Add(op, inputs);
      const AttrValue* alpha = Find(node_, "leakyrelu_alpha");
      if (op == "LeakyRelu" && alpha != nullptr) (*part->mutable_attr())["alpha"] = *alpha;
      if (fused == "FusedBatchNorm") {
        (*part->mutable_attr())["U"].set_type(tensorflow::DT_FLOAT);
        (*part->mutable_attr())["is_training"].set_b(false);
      }
    }
    return parts_.size() > 1 && next == data_.size();
  }

  bool BatchNorm() {
    if (data_.size() != (HasSideInput(node_) ? 6u : 5u)) return false;
    Add("FusedBatchNormV3", std::vector<std::string>(data_.begin(), data_.begin() + 5));
    if (HasSideInput(node_)) Add("AddV2", {Last(), data_[5]});
    const std::string activation = ActivationOfBatchNorm(node_);
    if (activation.empty()) return parts_.size() > 1;
    if (OpOfFused(activation).empty()) return false;
    Add(activation, {Last()});
    return true;
  }

  const NodeDef& node_;
  std::vector<std::string> data_, controls_;
  std::vector<NodeDef> parts_;
};

bool IsExpandable(const std::string& op) {
  return ContractionOf(op) != nullptr || op == "_FusedBatchNormEx";
}

// Outputs 1 to 5 of a fused batch norm come from its first part.
void RedirectOutputs(const std::unordered_map<std::string, std::string>& first_parts,
                     NodeDef* node) {
  for (int i = 0; i < node->input_size(); ++i) {
    const std::string& input = node->input(i);
    const size_t colon = input.rfind(':');
    if (colon == std::string::npos || input.substr(colon) == ":0") continue;
    const auto found = first_parts.find(input.substr(0, colon));
    if (found != first_parts.end()) {
      node->set_input(i, absl::StrCat(found->second, input.substr(colon)));
    }
  }
}

}  // namespace

std::vector<std::string> OpsOf(const NodeDef& node) {
  const std::string& op = node.op();
  std::vector<std::string> ops;
  if (const char* contraction = ContractionOf(op)) {
    ops.push_back(contraction);
    for (const std::string& fused : FusedNames(node)) {
      const std::string part = OpOfFused(fused);
      ops.push_back(part.empty() ? fused : part);
    }
  } else if (op == "_FusedBatchNormEx") {
    ops.push_back("FusedBatchNormV3");
    if (HasSideInput(node)) ops.push_back("AddV2");
    const std::string activation = ActivationOfBatchNorm(node);
    if (!activation.empty()) ops.push_back(activation);
  } else if (op == "_FusedBatchNormGradEx") {
    ops = {"FusedBatchNormGradV3"};
  } else if (op == "_MklSwish") {
    ops = {"Sigmoid", "Mul"};
  } else {
    ops = {op};
  }
  return ops;
}

bool StandsForSeveral(const NodeDef& node) {
  // All op types of fused nodes start with "_". The test is quick for most nodes.
  return absl::StartsWith(node.op(), "_") && OpsOf(node).size() > 1;
}

void ExpandFusedOps(const GraphDef& graph, const std::function<bool(const NodeDef&)>& wanted,
                    GraphDef* expanded, std::vector<Expansion>* expansions) {
  std::unordered_set<std::string> names;
  for (const NodeDef& node : graph.node()) names.insert(node.name());
  std::unordered_map<std::string, std::string> first_parts;
  CopyAllButNodes(graph, expanded);
  expansions->clear();
  std::vector<NodeDef> parts;
  for (const NodeDef& node : graph.node()) {
    bool expand = IsExpandable(node.op()) && wanted(node) && Expander(node).Run(&parts);
    for (size_t i = 0; expand && i + 1 < parts.size(); ++i) {
      expand = names.count(parts[i].name()) == 0;
    }
    if (!expand) {
      CopyWithoutValue(node, expanded->add_node());
      continue;
    }
    expansions->push_back({node.name(), {}});
    if (node.op() == "_FusedBatchNormEx") first_parts[node.name()] = parts.front().name();
    for (NodeDef& part : parts) {
      expansions->back().parts.push_back(part.name());
      expanded->add_node()->Swap(&part);
    }
  }
  if (first_parts.empty()) return;
  for (NodeDef& node : *expanded->mutable_node()) RedirectOutputs(first_parts, &node);
}

std::string NameInMixlist(const std::string& name) {
  return name.substr(0, std::min(name.rfind(kPart), name.rfind(kRenamedSuffix)));
}

}  // namespace npu_precision
