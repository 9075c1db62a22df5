#include "cc/shapes.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "graph_passes/graph/constant_values.h"
#include "graph_passes/graph/element_counts.h"
#include "graph_passes/graph/fused_ops.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/framework/types.h"

namespace npu_precision {
namespace {

using tensorflow::GraphDef;
using tensorflow::NodeDef;
using tensorflow::PartialTensorShape;
using tensorflow::grappler::GraphProperties;
using tensorflow::grappler::GrapplerItem;

bool HasItsAttributes(const NodeDef& node) {
  const tensorflow::OpDef* definition = nullptr;
  const auto* registry = tensorflow::OpRegistry::Global();
  if (!registry->LookUpOpDef(node.op(), &definition).ok()) return true;  // a function
  return std::all_of(definition->attr().begin(), definition->attr().end(),
                     [&node](const tensorflow::OpDef::AttrDef& attr) {
                       return attr.has_default_value() || node.attr().count(attr.name()) != 0;
                     });
}

NodeDef* AddNode(const std::string& name, const char* op, GraphDef* graph) {
  NodeDef* node = graph->add_node();
  node->set_name(name);
  node->set_op(op);
  return node;
}

std::string AddPlaceholder(const char* name, int64_t size, GraphDef* graph) {
  NodeDef* node = AddNode(absl::StrCat("npu_precision/shapes/", name), "Placeholder", graph);
  (*node->mutable_attr())["dtype"].set_type(tensorflow::DT_FLOAT);
  PartialTensorShape({size}).AsProto((*node->mutable_attr())["shape"].mutable_shape());
  return node->name();
}

// Makes Grappler ignore the sizes that consumers imply for their inputs. Grappler would use such a
// size for the tensor wherever it is read. If the sizes contradict, it drops them all, and keeps
// only the sizes inferred from producers. So this adds two nodes that contradict.
void AddContradiction(GraphDef* graph) {
  const std::string tensor = AddPlaceholder("any", -1, graph);
  for (const auto& of : {AddPlaceholder("two", 2, graph), AddPlaceholder("three", 3, graph)}) {
    NodeDef* sum = AddNode(absl::StrCat(of, "_sum"), "AddN", graph);
    (*sum->mutable_attr())["T"].set_type(tensorflow::DT_FLOAT);
    (*sum->mutable_attr())["N"].set_i(2);
    sum->add_input(tensor);
    sum->add_input(of);
  }
}

// Replaces each large constant by another node: only small constants are shapes or axes.
GraphDef WithoutLargeConstants(const GraphDef& graph) {
  GraphDef copy;
  CopyAllButNodes(graph, &copy);
  copy.mutable_node()->Reserve(graph.node_size());
  for (const NodeDef& from : graph.node()) {
    NodeDef* node = copy.add_node();
    CopyWithoutValue(from, node);
    const auto value = from.attr().find("value");
    if (from.op() != "Const" || value == from.attr().end() || node->attr().count("value") != 0) {
      continue;
    }
    node->set_op("Placeholder");
    *(*node->mutable_attr())["shape"].mutable_shape() = value->second.tensor().tensor_shape();
  }
  return copy;
}

std::unique_ptr<GraphProperties> Inferred(const GrapplerItem& item) {
  // Newer TensorFlows abort the process at a Const without a value. The graph of an offline rewrite
  // may have one; the graph of a session was checked by TensorFlow.
  if (!std::all_of(item.graph.node().begin(), item.graph.node().end(), HasItsAttributes)) {
    return nullptr;
  }
  std::unique_ptr<GraphProperties> properties(new GraphProperties(item));
  // Feeds are valid: a session checks them against the placeholder's shape.
  const bool is_inferred = properties
                               ->InferStatically(/*assume_valid_feeds=*/true,
                                                 /*aggressive_shape_inference=*/false,
                                                 /*include_tensor_values=*/false)
                               .ok();
  if (!is_inferred) return nullptr;
  return properties;
}

PartialTensorShape ShapeOf(const GraphProperties* properties, const std::string& node, int port) {
  if (properties == nullptr) return PartialTensorShape();
  const auto& outputs = properties->GetOutputProperties(node);
  if (port >= static_cast<int>(outputs.size())) return PartialTensorShape();
  // Negative sizes are ids of unknown sizes; older TensorFlows also have negative ids of ranks.
  tensorflow::TensorShapeProto proto = outputs[port].shape();
  for (auto& dim : *proto.mutable_dim()) dim.set_size(std::max<int64_t>(dim.size(), -1));
  return PartialTensorShape(proto);
}

}  // namespace

PartialTensorShape Shapes::Of(const std::string& node, int port) {
  if (!is_inferred_) {
    GraphDef graph = WithoutLargeConstants(item_.graph);
    AddContradiction(&graph);
    made_.reset(new GrapplerItem(item_.WithGraph(std::move(graph))));
    properties_ = Inferred(*made_);
  }
  is_inferred_ = true;
  // A part of a fused node has the shape of the whole.
  return ShapeOf(properties_.get(), NameInMixlist(node), port);
}

int64_t Shapes::NumElements(const std::string& node, int port) {
  // -1, which is kUnknownElements, if a size is not known.
  return Of(node, port).num_elements();
}

void MeasureCasts(const GrapplerItem& item, const tensorflow::GraphDef& optimized, Ledger* ledger) {
  if (ledger->cast_list.empty()) return;
  const GrapplerItem after = item.WithGraph(GraphDef(optimized));
  // A Cast runs only if its reader runs, so the reader may imply more about the shape.
  const std::unique_ptr<GraphProperties> properties = Inferred(after);
  for (LedgerCast& cast : ledger->cast_list) {
    const int64_t elements = ShapeOf(properties.get(), cast.name, 0).num_elements();
    if (elements == kUnknownElements) continue;
    tensorflow::DataType dtype = tensorflow::DT_INVALID;
    if (!tensorflow::DataTypeFromString(cast.to, &dtype)) continue;
    cast.bytes = elements * tensorflow::DataTypeSize(dtype);
  }
}

}  // namespace npu_precision
