#include "graph_passes/graph/graph_view.h"

#include <unordered_map>

#include "graph_passes/graph/input_names.h"
#include "graph_passes/graph/marks.h"
#include "graph_passes/graph/quoted.h"
#include "graph_passes/graph/registered_ops.h"
#include "tensorflow/core/framework/function.pb.h"
#include "tensorflow/core/lib/core/errors.h"
#include "tensorflow/core/lib/hash/hash.h"

namespace npu_precision {
namespace {

using tensorflow::NodeDef;
using tensorflow::OpDef;
using tensorflow::Status;
using tensorflow::errors::FailedPrecondition;

}  // namespace

size_t GraphView::Hasher::operator()(absl::string_view text) const {
  return tensorflow::Hash64(text.data(), text.size());
}

int GraphView::IndexOf(absl::string_view name) const {
  const auto found = ids_.find(name);
  return found == ids_.end() ? -1 : found->second;
}

absl::Span<const InputPort> GraphView::fanout(const OutputPort& tensor) const {
  const absl::Span<const InputPort> all = fanout(tensor.node);
  const auto port_of = [this](const InputPort& use) { return fanin(use.node)[use.index].port; };
  const auto begin = std::partition_point(
      all.begin(), all.end(), [&](const InputPort& use) { return port_of(use) < tensor.port; });
  const auto end = std::partition_point(
      begin, all.end(), [&](const InputPort& use) { return port_of(use) == tensor.port; });
  return absl::Span<const InputPort>(begin, end - begin);
}

int GraphView::GroupOf(const InputPort& input) const {
  if (op_def(input.node) == nullptr) return kNoGroup;
  const int group = inputs(input.node)[input.index].group;
  return group == kFixedDtype ? kNoGroup : first_group(input.node) + group;
}

int GraphView::GroupOf(const OutputPort& tensor) const {
  if (op_def(tensor.node) == nullptr) return kNoGroup;
  const int group = outputs(tensor.node)[tensor.port].group;
  return group == kFixedDtype ? kNoGroup : first_group(tensor.node) + group;
}

tensorflow::DataType GraphView::dtype(const OutputPort& tensor) const {
  if (op_def(tensor.node) == nullptr) return tensorflow::DT_INVALID;
  return outputs(tensor.node)[tensor.port].dtype;
}

tensorflow::DataType GraphView::dtype(const InputPort& input) const {
  if (op_def(input.node) == nullptr) return tensorflow::DT_INVALID;
  return inputs(input.node)[input.index].dtype;
}

Status GraphView::Build(const tensorflow::GraphDef& graph, GraphView* view) {
  *view = GraphView();
  view->graph_ = &graph;
  TF_RETURN_IF_ERROR(view->IndexNames());
  view->NumberOps();
  TF_RETURN_IF_ERROR(view->DescribeNodes());
  TF_RETURN_IF_ERROR(view->ConnectInputs());
  view->ConnectOutputs();
  return Status();
}

Status GraphView::IndexNames() {
  ids_.reserve(graph_->node_size());
  for (int id = 0; id < graph_->node_size(); ++id) {
    if (!ids_.insert({graph_->node(id).name(), id}).second) {
      return FailedPrecondition("two nodes are named ", Quoted(graph_->node(id).name()));
    }
  }
  return Status();
}

// An op is TensorFlow's, or else a function of the graph's library, or else opaque.
void GraphView::NumberOps() {
  std::unordered_map<std::string, const OpDef*> functions;
  for (const auto& function : graph_->library().function()) {
    functions[function.signature().name()] = &function.signature();
  }
  tensorflow::gtl::FlatMap<absl::string_view, int, Hasher> numbers;
  op_of_node_.reserve(graph_->node_size());
  for (const NodeDef& node : graph_->node()) {
    auto number = numbers.insert({node.op(), num_ops()});
    op_of_node_.push_back(number.first->second);
    if (!number.second) continue;
    Op op = {node.op(), RegisteredOp(node.op()), false};
    if (op.op_def == nullptr) {
      const auto function = functions.find(node.op());
      op.is_function = function != functions.end();
      op.op_def = op.is_function ? function->second : nullptr;
    }
    ops_.push_back(op);
  }
}

Status GraphView::DescribeNodes() {
  const int n = graph_->node_size();
  std::vector<bool> may_be_inserted, is_cast;
  for (const Op& op : ops_) {
    may_be_inserted.push_back(IsOpOfInserted(op.name));
    is_cast.push_back(op.name == "Cast");
  }
  inserted_.assign(n, Inserted::kNo);
  groups_begin_ = inputs_begin_ = outputs_begin_ = {0};
  NodeTypes types;
  for (int id = 0; id < n; ++id) {
    const NodeDef& node = graph_->node(id);
    if (may_be_inserted[op(id)] && npu_precision::IsInserted(node)) {
      inserted_[id] = !npu_precision::IsTransparent(node) ? Inserted::kYes
                      : is_cast[op(id)]                   ? Inserted::kTransparentCast
                                                          : Inserted::kTransparent;
    }
    if (op_def(id) != nullptr) {
      TF_RETURN_IF_ERROR(DescribeTypes(node, *op_def(id), &types));
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
      const ParsedInput tensor = ParseInput(input);
      const int producer = IndexOf(tensor.producer);
      if (producer < 0) {
        return FailedPrecondition("node ", Quoted(node.name()), ": input ", Quoted(input),
                                  " is not a node of the graph");
      }
      if (tensor.is_control) {
        saw_control = true;
        continue;
      }
      if (saw_control) {
        return FailedPrecondition("node ", Quoted(node.name()), ": data input ", Quoted(input),
                                  " stands after a control input");
      }
      if (tensor.port < 0 ||
          (op_def(producer) != nullptr && tensor.port >= num_outputs(producer))) {
        return FailedPrecondition("node ", Quoted(node.name()), ": input ", Quoted(input),
                                  " asks for an output that ",
                                  Quoted(graph_->node(producer).name()), " does not have");
      }
      fanin_.push_back({producer, tensor.port});
      ++data_inputs;
    }
    if (op_def(id) != nullptr && data_inputs != num_inputs(id)) {
      return FailedPrecondition("node ", Quoted(node.name()), " (", node.op(), ") has ",
                                data_inputs, " data inputs, expected ", num_inputs(id));
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
    for (int k = 0; k < num_fanin(id); ++k) {
      fanout_[next[fanin(id)[k].node]++] = {id, k};
    }
  }
  for (int id = 0; id < size(); ++id) {
    if (op_def(id) != nullptr && num_outputs(id) < 2) continue;
    std::stable_sort(fanout_.begin() + fanout_begin_[id], fanout_.begin() + fanout_begin_[id + 1],
                     [this](const InputPort& a, const InputPort& b) {
                       return fanin(a.node)[a.index].port < fanin(b.node)[b.index].port;
                     });
  }
}

std::vector<int> InOrderOfNames(const GraphView& view, std::vector<int> ids) {
  std::sort(ids.begin(), ids.end(),
            [&view](int a, int b) { return view.node(a).name() < view.node(b).name(); });
  return ids;
}

}  // namespace npu_precision
