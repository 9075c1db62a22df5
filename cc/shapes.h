// The shapes of a graph's tensors, as Grappler infers them.
#ifndef NPU_PRECISION_CC_SHAPES_H_
#define NPU_PRECISION_CC_SHAPES_H_

#include <memory>
#include <string>

#include "graph_passes/ledger.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/grappler/costs/graph_properties.h"
#include "tensorflow/core/grappler/grappler_item.h"

namespace npu_precision {

// The shapes that tensors have in every run, whatever is fetched: a shape is inferred from a
// tensor's producers, never from a consumer, which may not run.
class Shapes {
 public:
  explicit Shapes(const tensorflow::grappler::GrapplerItem& item) : item_(item) {}

  // The shape of a tensor; of unknown rank if it is not known. The first call infers all shapes.
  tensorflow::PartialTensorShape Of(const std::string& node, int port);
  // The number of elements, or kUnknownElements.
  int64_t NumElements(const std::string& node, int port);

 private:
  const tensorflow::grappler::GrapplerItem& item_;
  bool is_inferred_ = false;
  // The item that properties_ are about.
  std::unique_ptr<tensorflow::grappler::GrapplerItem> made_;
  std::unique_ptr<tensorflow::grappler::GraphProperties> properties_;  // null: nothing is known
};

// Fills LedgerCast::bytes. `optimized` is `item`'s graph after the rewrite.
void MeasureCasts(const tensorflow::grappler::GrapplerItem& item,
                  const tensorflow::GraphDef& optimized, Ledger* ledger);

}  // namespace npu_precision

#endif  // NPU_PRECISION_CC_SHAPES_H_
