#include "graph_passes/graph_view.h"

#include "graph_passes/did_you_mean.h"
#include "tensorflow/core/framework/function.pb.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/graph/tensor_id.h"
#include "tensorflow/core/lib/core/errors.h"
#include "tensorflow/core/lib/hash/hash.h"

namespace npu_precision {
namespace {

using tensorflow::NodeDef;
using tensorflow::OpDef;
using tensorflow::Status;
using tensorflow::errors::FailedPrecondition;

// Finds the OpDef of each op type once: in TensorFlow, then in the graph's own functions.
class OpDefs {
 public:
  explicit OpDefs(const tensorflow::GraphDef& graph) {
    for (const auto& function : graph.library().function()) {
      functions_[function.signature().name()] = &function.signature();
    }
  }

  const OpDef* Find(const std::string& op) {
    const auto known = cache_.find(op);
    if (known != cache_.end()) return known->second;
    const OpDef* op_def = nullptr;
    if (!tensorflow::OpRegistry::Global()->LookUpOpDef(op, &op_def).ok()) {
      const auto function = functions_.find(op);
      op_def = function == functions_.end() ? nullptr : function->second;
    }
    cache_.emplace(op, op_def);
    return op_def;
  }

 private:
  std::unordered_map<std::string, const OpDef*> functions_;
  std::unordered_map<std::string, const OpDef*> cache_;
};

bool IsControl(const std::string& input) { return !input.empty() && input[0] == '^'; }

}  // namespace

size_t GraphView::Hasher::operator()(absl::string_view text) const {
  return tensorflow::Hash64(text.data(), text.size());
}

int GraphView::IndexOf(absl::string_view name) const {
  const auto found = ids_.find(name);
  return found == ids_.end() ? -1 : found->second;
}

Span<InputPort> GraphView::fanout(const OutputPort& tensor) const {
  const Span<InputPort> all = fanout(tensor.node);
  const auto port_of = [this](const InputPort& use) { return fanin(use.node)[use.index].port; };
  const auto begin = std::partition_point(
      all.begin(), all.end(), [&](const InputPort& use) { return port_of(use) < tensor.port; });
  const auto end = std::partition_point(
      begin, all.end(), [&](const InputPort& use) { return port_of(use) == tensor.port; });
  return Span<InputPort>(begin, end);
}

tensorflow::DataType GraphView::dtype(const OutputPort& port) const {
  if (op_defs_[port.node] == nullptr) return tensorflow::DT_INVALID;
  return outputs(port.node)[port.port].dtype;
}

Status GraphView::Build(const tensorflow::GraphDef& graph, GraphView* view) {
  *view = GraphView();
  view->graph_ = &graph;
  TF_RETURN_IF_ERROR(view->IndexNames());
  TF_RETURN_IF_ERROR(view->DescribeNodes());
  TF_RETURN_IF_ERROR(view->ConnectInputs());
  view->ConnectOutputs();
  return Status();
}

Status GraphView::IndexNames() {
  ids_.reserve(graph_->node_size());
  for (int id = 0; id < graph_->node_size(); ++id) {
    if (!ids_.emplace(graph_->node(id).name(), id).second) {
      return FailedPrecondition("two nodes are named ", Quoted(graph_->node(id).name()));
    }
  }
  return Status();
}

Status GraphView::DescribeNodes() {
  const int n = graph_->node_size();
  OpDefs op_defs(*graph_);
  for (const auto& function : graph_->library().function()) {
    functions_.insert(&function.signature());
  }
  op_defs_.reserve(n);
  groups_begin_ = inputs_begin_ = outputs_begin_ = {0};
  NodeTypes types;
  for (int id = 0; id < n; ++id) {
    const NodeDef& node = graph_->node(id);
    const OpDef* op_def = op_defs.Find(node.op());
    op_defs_.push_back(op_def);
    if (op_def != nullptr) {
      TF_RETURN_IF_ERROR(DescribeTypes(node, *op_def, &types));
      groups_.insert(groups_.end(), types.groups.begin(), types.groups.end());
      inputs_.insert(inputs_.end(), types.inputs.begin(), types.inputs.end());
      outputs_.insert(outputs_.end(), types.outputs.begin(), types.outputs.end());
    }
    node_of_group_.resize(groups_.size(), id);
    groups_begin_.push_back(static_cast<int>(groups_.size()));
    inputs_begin_.push_back(static_cast<int>(inputs_.size()));
    outputs_begin_.push_back(static_cast<int>(outputs_.size()));
  }
  return Status();
}

Status GraphView::ConnectInputs() {
  fanin_begin_ = {0};
  for (int id = 0; id < size(); ++id) {
    const NodeDef& node = graph_->node(id);
    int data_inputs = 0;
    bool saw_control = false;
    for (const std::string& input : node.input()) {
      const tensorflow::TensorId tensor = tensorflow::ParseTensorName(input);
      const int producer = IndexOf(absl::string_view(tensor.node().data(), tensor.node().size()));
      if (producer < 0) {
        return FailedPrecondition("node ", Quoted(node.name()), ": input ", Quoted(input),
                                  " is not a node of the graph");
      }
      if (IsControl(input)) {
        saw_control = true;
        continue;
      }
      if (saw_control) {
        return FailedPrecondition("node ", Quoted(node.name()), ": data input ", Quoted(input),
                                  " stands after a control input");
      }
      if (tensor.index() < 0 ||
          (op_defs_[producer] != nullptr && tensor.index() >= outputs(producer).size())) {
        return FailedPrecondition("node ", Quoted(node.name()), ": input ", Quoted(input),
                                  " asks for an output that ",
                                  Quoted(graph_->node(producer).name()), " does not have");
      }
      fanin_.push_back({producer, tensor.index()});
      ++data_inputs;
    }
    if (op_defs_[id] != nullptr && data_inputs != inputs(id).size()) {
      return FailedPrecondition("node ", Quoted(node.name()), " (", node.op(), ") has ",
                                data_inputs, " data inputs, expected ", inputs(id).size());
    }
    fanin_begin_.push_back(static_cast<int>(fanin_.size()));
  }
  return Status();
}

void GraphView::ConnectOutputs() {
  fanout_begin_.assign(size() + 1, 0);
  for (const OutputPort& port : fanin_) ++fanout_begin_[port.node + 1];
  for (int id = 0; id < size(); ++id) fanout_begin_[id + 1] += fanout_begin_[id];
  fanout_.resize(fanin_.size());
  std::vector<int> next(fanout_begin_.begin(), fanout_begin_.end() - 1);
  for (int id = 0; id < size(); ++id) {
    for (int k = 0; k < fanin(id).size(); ++k) {
      fanout_[next[fanin(id)[k].node]++] = {id, k};
    }
  }
  for (int id = 0; id < size(); ++id) {
    if (op_defs_[id] != nullptr && outputs(id).size() < 2) continue;
    std::stable_sort(fanout_.begin() + fanout_begin_[id], fanout_.begin() + fanout_begin_[id + 1],
                     [this](const InputPort& a, const InputPort& b) {
                       return fanin(a.node)[a.index].port < fanin(b.node)[b.index].port;
                     });
  }
}

}  // namespace npu_precision
