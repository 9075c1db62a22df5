#include "graph_passes/rewrite/lower_io_types.h"

#include <unordered_map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "graph_passes/graph/drop_unused.h"
#include "graph_passes/graph/dtype_names.h"
#include "graph_passes/graph/low_types.h"
#include "graph_passes/graph/marks.h"

namespace npu_precision {
namespace {

using tensorflow::DataType;
using tensorflow::NodeDef;

constexpr char kBy[] = "keep_io_types";

// The low type to which Casts convert a placeholder, if all its consumers are such Casts of one
// type; else DT_INVALID.
DataType ReadAs(const GraphView& view, int id) {
  DataType read = tensorflow::DT_INVALID;
  for (const InputPort& reader : view.fanout(id)) {
    if (!view.IsTransparentCast(reader.node)) return tensorflow::DT_INVALID;
    const DataType dtype = view.outputs(reader.node)[0].dtype;
    if (read != tensorflow::DT_INVALID && dtype != read) return tensorflow::DT_INVALID;
    read = dtype;
  }
  return IsLowType(read) ? read : tensorflow::DT_INVALID;
}

// The consumers of a Cast read its input instead, which has the same dtype now. Control
// dependencies on the Cast stay.
void ReadPast(const GraphView& view, int source, int cast, DataType low,
              tensorflow::GraphDef* graph) {
  (*graph->mutable_node(cast)->mutable_attr())["SrcT"].set_type(low);
  for (const InputPort& consumer : view.fanout(cast)) {
    graph->mutable_node(consumer.node)->set_input(consumer.index, view.node(source).name());
  }
}

// The Cast that has taken the name of a fetched node, or -1.
int CastWithItsName(const GraphView& view, int id, const std::set<std::string>& preserved) {
  for (const InputPort& reader : view.fanout(id)) {
    if (view.IsTransparentCast(reader.node) &&
        preserved.count(view.node(reader.node).name()) != 0) {
      return reader.node;
    }
  }
  return -1;
}

void Rename(const std::unordered_map<std::string, std::string>& names,
            tensorflow::GraphDef* graph) {
  for (NodeDef& node : *graph->mutable_node()) {
    const auto own = names.find(node.name());
    if (own != names.end()) node.set_name(own->second);
    for (std::string& input : *node.mutable_input()) {
      const size_t begin = input[0] == '^' ? 1 : 0;
      const size_t end = input.find(':', begin);
      const auto found = names.find(input.substr(begin, end - begin));
      if (found == names.end()) continue;
      input = absl::StrCat(input.substr(0, begin), found->second,
                           end == std::string::npos ? "" : input.substr(end));
    }
  }
}

}  // namespace

tensorflow::Status LowerIoTypes(PassState* state, bool* changed) {
  *changed = false;
  const GraphView& view = state->view();
  tensorflow::GraphDef* graph = state->Editable();
  std::set<std::string>* preserved = &state->preserved;
  std::unordered_map<std::string, std::string> names;
  for (int id = 0; id < view.size(); ++id) {
    const NodeDef& node = view.node(id);
    if (!HasLowerIoMark(node) || view.num_outputs(id) != 1) continue;
    const DataType dtype = view.outputs(id)[0].dtype;
    if (view.num_inputs(id) == 0 && dtype == tensorflow::DT_FLOAT) {
      const DataType low = ReadAs(view, id);
      if (low == tensorflow::DT_INVALID) continue;
      preserved->erase(node.name());
      SetGroupDtype(*view.op_def(id), view.groups(id)[0], low, graph->mutable_node(id));
      for (const InputPort& reader : view.fanout(id)) ReadPast(view, id, reader.node, low, graph);
      state->rewrites.push_back({kBy, node.name(), DtypeName(dtype), DtypeName(low)});
      *changed = true;
      continue;
    }
    const int cast = IsLowType(dtype) ? CastWithItsName(view, id, *preserved) : -1;
    if (cast < 0) continue;
    const std::string name = view.node(cast).name();
    names[node.name()] = name;
    names[name] = node.name();
    preserved->erase(name);
    state->rewrites.push_back(
        {kBy, name, DtypeName(view.outputs(cast)[0].dtype), DtypeName(dtype)});
    *changed = true;
  }
  if (!*changed) return tensorflow::Status();
  Rename(names, graph);
  DropUnused(*preserved, graph);
  return tensorflow::Status();
}

}  // namespace npu_precision
