#include "cc/cast_bytes.h"

#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/grappler/costs/graph_properties.h"

namespace npu_precision {

void MeasureCasts(const tensorflow::grappler::GrapplerItem& item,
                  const tensorflow::GraphDef& optimized, Ledger* ledger) {
  if (ledger->cast_list.empty()) return;
  const tensorflow::grappler::GrapplerItem after = item.WithGraph(tensorflow::GraphDef(optimized));
  tensorflow::grappler::GraphProperties properties(after);
  // Feeds are valid: a session checks them against the placeholder's shape. Shapes are a help to
  // the reader; without them the ledger says null.
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
