#include "cc/shapes.h"

#include <algorithm>

#include "graph_passes/graph/element_counts.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/framework/types.h"

namespace npu_precision {
namespace {

using tensorflow::grappler::GraphProperties;
using tensorflow::grappler::GrapplerItem;

bool HasItsAttributes(const tensorflow::NodeDef& node) {
  const tensorflow::OpDef* definition = nullptr;
  const auto* registry = tensorflow::OpRegistry::Global();
  if (!registry->LookUpOpDef(node.op(), &definition).ok()) return true;  // a function
  return std::all_of(definition->attr().begin(), definition->attr().end(),
                     [&node](const tensorflow::OpDef::AttrDef& attr) {
                       return attr.has_default_value() || node.attr().count(attr.name()) != 0;
                     });
}

std::unique_ptr<GraphProperties> Inferred(const GrapplerItem& item) {
  // Newer TensorFlows end the process at a Const without a value. The graph of an offline rewrite
  // may have one; TensorFlow checked that of a session.
  if (!std::all_of(item.graph.node().begin(), item.graph.node().end(), HasItsAttributes)) {
    return nullptr;
  }
  std::unique_ptr<GraphProperties> properties(new GraphProperties(item));
  // Feeds are valid: a session checks them against the placeholder's shape.
  if (!properties->InferStatically(/*assume_valid_feeds=*/true).ok()) return nullptr;
  return properties;
}

}  // namespace

tensorflow::PartialTensorShape Shapes::Of(const std::string& node, int port) {
  if (!is_inferred_) properties_ = Inferred(item_);
  is_inferred_ = true;
  if (properties_ == nullptr) return tensorflow::PartialTensorShape();
  const auto& outputs = properties_->GetOutputProperties(node);
  if (port >= static_cast<int>(outputs.size())) return tensorflow::PartialTensorShape();
  // Negative sizes are names of sizes that are not known, and so are ranks in older TensorFlows.
  tensorflow::TensorShapeProto proto = outputs[port].shape();
  for (auto& dim : *proto.mutable_dim()) dim.set_size(std::max<int64_t>(dim.size(), -1));
  return tensorflow::PartialTensorShape(proto);
}

int64_t Shapes::NumElements(const std::string& node, int port) {
  // -1, which is kUnknownElements, where a size is not known.
  return Of(node, port).num_elements();
}

void MeasureCasts(const GrapplerItem& item, const tensorflow::GraphDef& optimized, Ledger* ledger) {
  if (ledger->cast_list.empty()) return;
  const GrapplerItem after = item.WithGraph(tensorflow::GraphDef(optimized));
  Shapes shapes(after);
  for (LedgerCast& cast : ledger->cast_list) {
    const int64_t elements = shapes.NumElements(cast.name, 0);
    if (elements == kUnknownElements) continue;
    tensorflow::DataType dtype = tensorflow::DT_INVALID;
    if (!tensorflow::DataTypeFromString(cast.to, &dtype)) continue;
    cast.bytes = elements * tensorflow::DataTypeSize(dtype);
  }
}

}  // namespace npu_precision
