// Recognises a LayerNorm that is written out as ops of elements.
//
// Everything behind the root of the variance is a product or a sum of x, its mean m, the root r and
// parameters. It is a LayerNorm, in whatever order it is computed, if its terms are those of
//
//   x * r * gamma - m * r * gamma + beta
//
// of which gamma, beta or both may be absent.
#ifndef NPU_PRECISION_GRAPH_PASSES_FUSE_LAYER_NORM_FORM_H_
#define NPU_PRECISION_GRAPH_PASSES_FUSE_LAYER_NORM_FORM_H_

#include <set>
#include <vector>

#include "graph_passes/fuse/fusion_site.h"
#include "graph_passes/graph/graph_view.h"

namespace npu_precision {

constexpr OutputPort kNoTensor = {-1, 0};

struct LayerNormForm {
  OutputPort x = kNoTensor;
  double epsilon = 0;
  OutputPort gamma = kNoTensor, beta = kNoTensor;
  std::set<int64_t> axes;  // that x is reduced over, as written; each has to be the last one
  std::set<int> inner;     // the nodes that compute it, but for the last
  int last = -1;           // yields the result
};

inline bool IsTensor(const OutputPort& tensor) { return tensor.node >= 0; }

bool IsRootOp(const std::string& op);

// The LayerNorms whose root of the variance is the node `root`, an op of IsRootOp: that with the
// most parameters first. Not asked: who else reads their nodes, and the shapes.
std::vector<LayerNormForm> LayerNormsOf(const GraphView& view, const FusionSite& site, int root);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_FUSE_LAYER_NORM_FORM_H_
