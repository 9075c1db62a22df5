#include "graph_passes/rewrite/reference_casts.h"

#include "absl/strings/str_cat.h"
#include "graph_passes/graph/control_inputs.h"

namespace npu_precision {
namespace {

constexpr int kNone = -1;

}  // namespace

ReferenceCasts::ReferenceCasts(const std::set<std::string>& fed, ChangedGraph* graph)
    : graph_(*graph), view_(graph->view()), reads_(view_, fed) {}

CastSource ReferenceCasts::SourceOf(const OutputPort& tensor, int reader) {
  ReferenceRead read;
  if (!reads_.Find(tensor, &read)) return {tensor, {}, true};
  AddInputsOfReader(reader, tensor.node, &read);
  if (read.control_inputs.empty()) return {tensor, {}, true};
  const bool is_shared = !HasControlInputs(view_, reader) && !read.in_loop;
  return {read.tensor, std::move(read.control_inputs), is_shared};
}

// Adds the reader's inputs directly, or through one node if there are many.
void ReferenceCasts::AddInputsOfReader(int reader, int source, ReferenceRead* read) {
  const int data_inputs = view_.num_fanin(reader);
  const int count = view_.node(reader).input_size() - (read->in_loop ? 0 : data_inputs);
  if (count <= kMaxControlInputs) {
    AddInputsOf(reader, read->in_loop, source, &read->control_inputs);
  } else {
    read->control_inputs.insert(absl::StrCat("^", CollectorOf(reader, read->in_loop)));
  }
}

// Adds the reader's control inputs. In a loop that writes the variable, it also adds the producers
// of the reader's data inputs, except `source`: they ensure that an iteration reads after the
// previous one has written.
void ReferenceCasts::AddInputsOf(int reader, bool in_loop, int source,
                                 std::set<std::string>* inputs) const {
  AddControlInputs(view_.node(reader), inputs);
  if (!in_loop) return;
  for (const OutputPort& producer : view_.fanin(reader)) {
    if (producer.node == source) continue;
    inputs->insert(absl::StrCat("^", graph_.node(producer.node).name()));
  }
}

const std::string& ReferenceCasts::CollectorOf(int reader, bool in_loop) {
  std::string& name = collectors_[{reader, in_loop}];
  if (!name.empty()) return name;
  std::set<std::string> inputs;
  AddInputsOf(reader, in_loop, kNone, &inputs);
  const tensorflow::NodeDef& node = view_.node(reader);
  name = graph_.UniqueName(absl::StrCat(node.name(), "/npu_wait"));
  tensorflow::NodeDef* collector = graph_.AddNoOp(name, node.device());
  for (const std::string& input : inputs) collector->add_input(input);
  return name;
}

}  // namespace npu_precision
