#include "graph_passes/reference_reads.h"

#include <vector>

#include "absl/strings/str_cat.h"

namespace npu_precision {

bool AddWaits(const tensorflow::NodeDef& node, std::set<std::string>* waits) {
  bool any = false;
  for (const std::string& input : node.input()) {
    if (input[0] != '^') continue;
    waits->insert(input);
    any = true;
  }
  return any;
}

bool ReferenceReads::IsReference(const OutputPort& tensor) const {
  if (view_.op_def(tensor.node) == nullptr) return false;
  const int argument = view_.outputs(tensor.node)[tensor.port].argument;
  return view_.op_def(tensor.node)->output_arg(argument).is_ref();
}

bool ReferenceReads::HandsOn(int id) const {
  const std::string& op = view_.node(id).op();
  return (op == "Identity" || op == "Enter") && fed_.count(view_.node(id).name()) == 0;
}

bool ReferenceReads::Find(OutputPort tensor, ReferenceRead* read) {
  std::vector<int> way;
  while (!IsReference(tensor) && HandsOn(tensor.node)) {
    // Known from before; or a cycle of them, in a damaged graph.
    if (!reads_.emplace(tensor.node, ReferenceRead()).second) break;
    way.push_back(tensor.node);
    tensor = view_.fanin(tensor.node)[0];
  }
  *read = ReferenceRead();
  const auto known = reads_.find(tensor.node);
  if (IsReference(tensor)) {
    read->tensor = tensor;
  } else if (known != reads_.end()) {
    *read = known->second;
  }
  for (; !way.empty(); way.pop_back()) {
    if (read->tensor.node >= 0) AddNode(way.back(), read);
    reads_[way.back()] = *read;
  }
  return read->tensor.node >= 0;
}

// From what the input of an Identity or Enter reads to what itself does.
void ReferenceReads::AddNode(int id, ReferenceRead* read) const {
  const tensorflow::NodeDef& node = view_.node(id);
  if (node.op() == "Enter") {
    *read = ReferenceRead();
    read->tensor = {id, 0};
    read->in_loop = true;
    return;
  }
  AddWaits(node, &read->waits);
  if (read->waits.size() > kMostWaits) read->waits = {absl::StrCat("^", node.name())};
}

}  // namespace npu_precision
