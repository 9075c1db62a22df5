// Recognizes a LayerNorm that is written as single ops.
//
// Each node behind the root of the variance is a product or a sum of x, its mean m, the root r and
// parameters. The nodes are a LayerNorm, in whatever order they compute it, if the terms are those
// of
//
//   x * r * gamma - m * r * gamma + beta
//
// Gamma, beta or both may be absent.
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
  // The axes that x is reduced over, as written. Each must be the last axis.
  std::set<int64_t> axes;
  std::set<int> inner;  // the nodes that compute it, except the last
  int last = -1;        // yields the result
};

inline bool IsTensor(const OutputPort& tensor) { return tensor.node >= 0; }

bool IsRootOp(const std::string& op);

// The LayerNorms whose root of the variance is the node `root`, an op of IsRootOp; the one with the
// most parameters is first. Other readers of the nodes, and shapes, are not checked.
std::vector<LayerNormForm> LayerNormsOf(const GraphView& view, const FusionSite& site, int root);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_FUSE_LAYER_NORM_FORM_H_
