// What computes the loss from the model's outputs, and the gradients of that.
//
// With all_white everything is lowered. The scale of a loss is the gradient of the scaled loss, and
// float16 holds none above 65504: what is between that and the model's last matrix or convolution
// op goes by the lists, as it does without all_white.
#ifndef NPU_PRECISION_GRAPH_PASSES_DECIDE_LOSS_REGION_H_
#define NPU_PRECISION_GRAPH_PASSES_DECIDE_LOSS_REGION_H_

#include <vector>

#include "graph_passes/graph/graph_view.h"

namespace npu_precision {

// By group number: whether it is on a path of `open` groups to a product of a loss and its scale,
// on one from the scale, or on one to any on the latter.
std::vector<bool> LossRegion(const GraphView& view, const std::vector<bool>& open);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_DECIDE_LOSS_REGION_H_
