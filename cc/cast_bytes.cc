#include "cc/cast_bytes.h"

#include <algorithm>

#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/grappler/costs/graph_properties.h"

namespace npu_precision {
namespace {

bool HasItsAttributes(const tensorflow::NodeDef& node) {
  const tensorflow::OpDef* definition = nullptr;
  const auto* registry = tensorflow::OpRegistry::Global();
  if (!registry->LookUpOpDef(node.op(), &definition).ok()) return true;  // a function
  return std::all_of(definition->attr().begin(), definition->attr().end(),
                     [&node](const tensorflow::OpDef::AttrDef& attr) {
                       return attr.has_default_value() || node.attr().count(attr.name()) != 0;
                     });
}

}  // namespace

void MeasureCasts(const tensorflow::grappler::GrapplerItem& item,
                  const tensorflow::GraphDef& optimized, Ledger* ledger) {
  if (ledger->cast_list.empty()) return;
  // Newer TensorFlows end the process at a Const without a value. The graph of an offline rewrite
  // may have one; TensorFlow checked that of a session.
  if (!std::all_of(optimized.node().begin(), optimized.node().end(), HasItsAttributes)) return;
  const tensorflow::grappler::GrapplerItem after = item.WithGraph(tensorflow::GraphDef(optimized));
  tensorflow::grappler::GraphProperties properties(after);
  // Feeds are valid: a session checks them against the placeholder's shape. If shapes
  // cannot be inferred, the ledger says null.
  if (!properties.InferStatically(/*assume_valid_feeds=*/true).ok()) return;
  for (LedgerCast& cast : ledger->cast_list) {
    const auto& outputs = properties.GetOutputProperties(cast.name);
    if (outputs.size() != 1) continue;
    const tensorflow::PartialTensorShape shape(outputs[0].shape());
    if (!shape.IsFullyDefined()) continue;
    cast.bytes = shape.num_elements() * tensorflow::DataTypeSize(outputs[0].dtype());
  }
}

}  // namespace npu_precision
