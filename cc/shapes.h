// What Grappler infers of the shapes in a graph.
#ifndef NPU_PRECISION_CC_SHAPES_H_
#define NPU_PRECISION_CC_SHAPES_H_

#include <memory>
#include <string>

#include "graph_passes/ledger.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/grappler/costs/graph_properties.h"
#include "tensorflow/core/grappler/grappler_item.h"

namespace npu_precision {

// The shapes that tensors have in every run, whatever is fetched: a shape follows from what the
// tensor is made of, never from another node that reads it and may not run.
class Shapes {
 public:
  explicit Shapes(const tensorflow::grappler::GrapplerItem& item) : item_(item) {}

  // Of a tensor; of unknown rank where nothing is known. Infers all shapes when it is asked first.
  tensorflow::PartialTensorShape Of(const std::string& node, int port);
  // Its elements, or kUnknownElements.
  int64_t NumElements(const std::string& node, int port);

 private:
  const tensorflow::grappler::GrapplerItem& item_;
  bool is_inferred_ = false;
  std::unique_ptr<tensorflow::grappler::GrapplerItem> made_;           // that properties_ are of
  std::unique_ptr<tensorflow::grappler::GraphProperties> properties_;  // null: nothing is known
};

// Fills LedgerCast::bytes. `optimized` is `item`'s graph after the rewrite.
void MeasureCasts(const tensorflow::grappler::GrapplerItem& item,
                  const tensorflow::GraphDef& optimized, Ledger* ledger);

}  // namespace npu_precision

#endif  // NPU_PRECISION_CC_SHAPES_H_
