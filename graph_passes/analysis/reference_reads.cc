#include "graph_passes/analysis/reference_reads.h"

#include "absl/strings/str_cat.h"
#include "graph_passes/graph/control_inputs.h"
#include "graph_passes/graph/op_traits.h"

namespace npu_precision {
namespace {

// The value of a Switch or Merge depends on its other inputs, and an Enter stands for a tensor of
// another frame. A Cast must read these ops themselves.
bool StartsOrSplits(const std::string& op) { return op == "Enter" || IsSwitch(op) || IsMerge(op); }

bool IsLoopVariable(const GraphView& view, int id) {
  if (FeedsLoopMerge(view.node(id).op())) {
    for (const InputPort& use : view.fanout(id)) {
      if (IsMerge(view.node(use.node).op())) return true;
    }
  } else if (IsMerge(view.node(id).op())) {
    for (const OutputPort& producer : view.fanin(id)) {
      if (FeedsLoopMerge(view.node(producer.node).op())) return true;
    }
  }
  return false;
}

}  // namespace

bool YieldsReference(const GraphView& view, int id) {
  return view.op_def(id) != nullptr && view.num_outputs(id) > 0 &&
         view.op_def(id)->output_arg(view.outputs(id)[0].argument).is_ref();
}

void PropagateMemory(const GraphView& view, const std::set<std::string>& fed,
                     std::vector<Memory>* memory) {
  std::vector<int> open;
  for (int id = 0; id < view.size(); ++id) {
    if ((*memory)[id] != Memory::kItsOwn) open.push_back(id);
  }
  while (!open.empty()) {
    const int producer = open.back();
    open.pop_back();
    const Memory from = (*memory)[producer];
    for (const InputPort& use : view.fanout(producer)) {
      const std::string& op = view.node(use.node).op();
      if (!AliasesInput(op) || (use.index > 0 && !IsMerge(op))) continue;
      if (fed.count(view.node(use.node).name()) != 0 || IsLoopVariable(view, use.node)) continue;
      const bool enters = IsEnter(op);
      const Memory here = enters ? Memory::kOfReferenceOutsideLoop : from;
      if (here <= (*memory)[use.node]) continue;
      (*memory)[use.node] = here;
      open.push_back(use.node);
    }
  }
}

ReferenceReads::ReferenceReads(const GraphView& view, const std::set<std::string>& fed)
    : view_(view), memory_(view.size(), Memory::kItsOwn) {
  for (int id = 0; id < view.size(); ++id) {
    if (YieldsReference(view, id)) memory_[id] = Memory::kOfReference;
  }
  PropagateMemory(view, fed, &memory_);
}

bool ReferenceReads::Find(OutputPort tensor, ReferenceRead* read) {
  if (memory_[tensor.node] == Memory::kItsOwn) return false;
  std::vector<int> passed;
  while (AliasesReference(tensor.node) && !StartsOrSplits(view_.node(tensor.node).op()) &&
         reads_.count(tensor.node) == 0) {
    passed.push_back(tensor.node);
    tensor = view_.fanin(tensor.node)[0];
  }
  const auto known = reads_.find(tensor.node);
  if (known != reads_.end()) {
    *read = known->second;
  } else {
    *read = ReferenceRead();
    read->tensor = tensor;
    read->in_loop = memory_[tensor.node] == Memory::kOfReferenceOutsideLoop;
  }
  for (; !passed.empty(); passed.pop_back()) {
    AddNode(passed.back(), read);
    reads_[passed.back()] = *read;
  }
  return true;
}

// Turns the read of a node's input into a read of its output.
void ReferenceReads::AddNode(int id, ReferenceRead* read) const {
  const tensorflow::NodeDef& node = view_.node(id);
  if (node.op() != "Identity") read->tensor = {id, 0};
  AddControlInputs(node, &read->control_inputs);
  if (read->control_inputs.size() > kMaxControlInputs) {
    read->control_inputs = {absl::StrCat("^", node.name())};
  }
}

}  // namespace npu_precision
