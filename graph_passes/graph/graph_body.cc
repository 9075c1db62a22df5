#include "graph_passes/graph/graph_body.h"

#include <algorithm>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace npu_precision {

using tensorflow::NodeDef;

GraphBody::GraphBody(tensorflow::GraphDef* graph)
    : nodes_(graph->mutable_node()), function_(nullptr) {
  Index();
}

GraphBody::GraphBody(tensorflow::FunctionDef* function)
    : nodes_(function->mutable_node_def()), function_(function) {
  Index();
}

void GraphBody::Index() {
  for (NodeDef& node : *nodes_) {
    by_name_.emplace(node.name(), &node);
    for (int k = 0; k < node.input_size(); ++k) {
      const std::string& input = node.input(k);
      if (input[0] == '^') {
        control_.insert(input.substr(1));
      } else {
        readers_[Input(node, k)].push_back({&node, k});
      }
    }
  }
  if (function_ == nullptr) return;
  for (const auto& result : function_->ret()) ++returned_[result.second];
  for (const auto& result : function_->control_ret()) control_.insert(result.second);
}

std::vector<NodeDef*> GraphBody::Nodes() const {
  std::vector<NodeDef*> nodes;
  for (NodeDef& node : *nodes_) {
    if (dropped_.count(&node) == 0) nodes.push_back(&node);
  }
  return nodes;
}

NodeDef* GraphBody::Producer(const std::string& tensor) const {
  const auto found = by_name_.find(tensor.substr(0, tensor.find(':')));
  return found == by_name_.end() ? nullptr : found->second;
}

std::string GraphBody::OutputOf(const NodeDef& node, const char* argument, int port) const {
  if (function_ != nullptr) return absl::StrCat(node.name(), ":", argument, ":", port);
  return port == 0 ? node.name() : absl::StrCat(node.name(), ":", port);
}

std::string GraphBody::Input(const NodeDef& node, int k) const {
  if (function_ != nullptr) return node.input(k);
  return std::string(absl::StripSuffix(node.input(k), ":0"));
}

std::vector<GraphBody::Reader> GraphBody::Readers(const std::string& tensor) const {
  const auto found = readers_.find(tensor);
  return found == readers_.end() ? std::vector<Reader>() : found->second;
}

void GraphBody::AddInput(NodeDef* node, const std::string& tensor) {
  is_edited_ = true;
  readers_[tensor].push_back({node, node->input_size()});
  node->add_input(tensor);
}

void GraphBody::SetInput(NodeDef* node, int k, const std::string& tensor) {
  is_edited_ = true;
  std::vector<Reader>& readers = readers_[Input(*node, k)];
  readers.erase(std::remove_if(
                    readers.begin(), readers.end(),
                    [=](const Reader& reader) { return reader.node == node && reader.input == k; }),
                readers.end());
  node->set_input(k, tensor);
  readers_[tensor].push_back({node, k});
}

void GraphBody::MoveReaders(const std::string& from, const std::string& to) {
  is_edited_ = true;
  const std::vector<Reader> moved = std::move(readers_[from]);
  readers_.erase(from);
  std::vector<Reader>& readers = readers_[to];
  for (const Reader& reader : moved) {
    reader.node->set_input(reader.input, to);
    readers.push_back(reader);
  }
  if (!IsReturned(from)) return;
  for (auto& result : *function_->mutable_ret()) {
    if (result.second == from) result.second = to;
  }
  returned_[to] += returned_[from];
  returned_.erase(from);
}

std::string GraphBody::Result(const std::string& result) const {
  const auto found = function_->ret().find(result);
  return found == function_->ret().end() ? "" : found->second;
}

void GraphBody::SetResult(const std::string& result, const std::string& tensor) {
  std::string& returned = (*function_->mutable_ret())[result];
  if (--returned_[returned] == 0) returned_.erase(returned);
  returned = tensor;
  ++returned_[tensor];
}

NodeDef* GraphBody::Add(const std::string& wanted_name) {
  std::string name = wanted_name;
  for (int number = 1; by_name_.count(name) != 0; ++number) {
    name = absl::StrCat(wanted_name, "_", number);
  }
  NodeDef* node = nodes_->Add();
  node->set_name(name);
  by_name_[name] = node;
  return node;
}

void GraphBody::Drop(NodeDef* node) {
  for (int k = 0; k < node->input_size(); ++k) {
    if (node->input(k)[0] == '^') continue;
    std::vector<Reader>& readers = readers_[Input(*node, k)];
    readers.erase(std::remove_if(readers.begin(), readers.end(),
                                 [=](const Reader& reader) { return reader.node == node; }),
                  readers.end());
  }
  is_edited_ = true;
  dropped_.insert(node);
}

std::vector<NodeDef*> GraphBody::Sorted() const {
  const std::vector<NodeDef*> nodes = Nodes();
  std::unordered_map<std::string, int> index;
  for (NodeDef* node : nodes) index.emplace(node->name(), static_cast<int>(index.size()));
  // A function's arguments come before all nodes, but have the numbers after them here.
  const int size = static_cast<int>(nodes.size());
  const int arguments = function_ == nullptr ? 0 : function_->signature().input_arg_size();
  for (int i = 0; i < arguments; ++i) {
    index.emplace(function_->signature().input_arg(i).name(), size + i);
  }
  std::vector<std::set<int>> consumers(size + arguments);
  std::vector<int> pending(size, 0), ready;
  for (int id = 0; id < size; ++id) {
    for (const std::string& input : nodes[id]->input()) {
      const size_t begin = input[0] == '^' ? 1 : 0;
      const auto producer = index.find(input.substr(begin, input.find(':') - begin));
      // Skip the back edge of a loop.
      if (producer == index.end() ||
          (producer->second < size && nodes[producer->second]->op() == "NextIteration")) {
        continue;
      }
      pending[id] += consumers[producer->second].insert(id).second;
    }
  }
  for (int i = 0; i < arguments; ++i) ready.push_back(size + i);
  for (int id = 0; id < size; ++id) {
    if (pending[id] == 0) ready.push_back(id);
  }
  std::vector<NodeDef*> sorted;
  for (size_t at = 0; at < ready.size(); ++at) {
    if (ready[at] < size) sorted.push_back(nodes[ready[at]]);
    for (int consumer : consumers[ready[at]]) {
      if (--pending[consumer] == 0) ready.push_back(consumer);
    }
  }
  return sorted.size() == nodes.size() ? sorted : nodes;
}

void GraphBody::End() {
  if (!is_edited_) return;
  Nodes_ kept;
  for (NodeDef* node : Sorted()) kept.Add()->Swap(node);
  nodes_->Swap(&kept);
}

}  // namespace npu_precision
