// Finds the region of the loss: the nodes that compute the loss from the outputs of the model, and
// their gradients.
//
// all_white lowers the rest of the model. The first gradient is the scale of the loss, which may
// exceed 65504, the largest value of float16. So the lists count between the loss and the last
// matrix or convolution ops of the model, as they do without all_white.
#ifndef NPU_PRECISION_GRAPH_PASSES_DECIDE_LOSS_REGION_H_
#define NPU_PRECISION_GRAPH_PASSES_DECIDE_LOSS_REGION_H_

#include <vector>

#include "graph_passes/graph/graph_view.h"

namespace npu_precision {

// Returns, by group number, whether the group is in the region. Paths of `open` groups connect the
// region. It has the ancestors of each product of a loss and its scale, the descendants of the
// product, and the ancestors of those descendants.
std::vector<bool> LossRegion(const GraphView& view, const std::vector<bool>& open);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_DECIDE_LOSS_REGION_H_
