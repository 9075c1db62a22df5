#include "graph_passes/rewrite/changed_graph.h"

#include "absl/strings/str_cat.h"
#include "graph_passes/graph/dtype_names.h"
#include "graph_passes/graph/marks.h"
#include "graph_passes/rewrite/cast_nodes.h"

namespace npu_precision {

using tensorflow::DataType;
using tensorflow::NodeDef;

ChangedGraph::ChangedGraph(const GraphView& view, const Decisions& decisions,
                           tensorflow::GraphDef* graph)
    : view_(view),
      decisions_(decisions),
      graph_(*graph),
      names_(view),
      renamed_(view.size(), false) {}

DataType ChangedGraph::NewDtype(const OutputPort& tensor) const {
  const int group = view_.GroupOf(tensor);
  return group == kNoGroup ? view_.dtype(tensor) : decisions_.group_dtypes[group];
}

DataType ChangedGraph::NewDtype(const InputPort& input) const {
  const int group = view_.GroupOf(input);
  return group == kNoGroup ? view_.dtype(input) : decisions_.group_dtypes[group];
}

bool ChangedGraph::Changes(int id) const {
  int group = view_.first_group(id);
  for (const TypeGroup& type : view_.groups(id)) {
    if (decisions_.group_dtypes[group++] != type.dtype) return true;
  }
  return false;
}

std::string ChangedGraph::InputName(const OutputPort& tensor) const {
  return npu_precision::InputName(node(tensor.node).name(), tensor.port);
}

const std::string& ChangedGraph::Rename(int id) {
  NodeDef* node = mutable_node(id);
  node->set_name(UniqueName(absl::StrCat(node->name(), kRenamedSuffix)));
  renamed_[id] = true;
  return node->name();
}

std::string ChangedGraph::CastName(const OutputPort& from, DataType dtype) {
  return UniqueName(
      absl::StrCat(view_.node(from.node).name(), "/npu_cast_", from.port, "_", DtypeName(dtype)));
}

NodeDef* ChangedGraph::AddCast(const std::string& name, const std::string& input, DataType from,
                               DataType to, const std::string& device) {
  NodeDef* cast = npu_precision::AddCast(name, input, from, to, device, &graph_);
  MarkInserted(cast);
  return cast;
}

NodeDef* ChangedGraph::AddCopy(const std::string& name, int id) {
  NodeDef* copy = graph_.add_node();
  *copy = view_.node(id);
  copy->set_name(name);
  copy->mutable_attr()->erase("_output_shapes");
  ForgetFullType(copy);
  MarkInserted(copy);
  return copy;
}

NodeDef* ChangedGraph::AddNoOp(const std::string& name, const std::string& device) {
  NodeDef* node = graph_.add_node();
  node->set_name(name);
  node->set_op("NoOp");
  node->set_device(device);
  MarkInserted(node);
  return node;
}

void ForgetFullType(NodeDef* node) {
  const auto* field = NodeDef::descriptor()->FindFieldByName("experimental_type");
  if (field != nullptr) node->GetReflection()->ClearField(node, field);
}

}  // namespace npu_precision
