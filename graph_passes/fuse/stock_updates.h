// The formulas of TensorFlow's own training ops, as programs of the update op. Each rounds as
// TensorFlow's kernel does: the same operations in the same order.
#ifndef NPU_PRECISION_GRAPH_PASSES_FUSE_STOCK_UPDATES_H_
#define NPU_PRECISION_GRAPH_PASSES_FUSE_STOCK_UPDATES_H_

#include <string>
#include <vector>

#include "graph_passes/fuse/update_builder.h"

namespace npu_precision {

struct StockUpdate {
  int variables;  // the first inputs: the variable and its slots
  int gradient;   // the input that is the gradient; the others are scalars
  // Writes the formula. `inputs` are the node's; `gradient` is the step that yields the gradient.
  void (*write)(const tensorflow::NodeDef& node, const std::vector<OutputPort>& inputs,
                int gradient, UpdateBuilder* builder);
  bool is_reference;  // of reference variables
};

// The update of this op, with dense gradients; nullptr if it is none of SGD, Momentum, Adam,
// RMSProp and Adagrad.
const StockUpdate* StockUpdateOf(const std::string& op);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_FUSE_STOCK_UPDATES_H_
