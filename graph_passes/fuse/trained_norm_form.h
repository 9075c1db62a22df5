// Recognizes a batch norm in training that is written as single ops, and its gradient, in whatever
// form: see norm_algebra.h. With the root r = 1 / sqrt(variance(x) + epsilon), and sums over all
// axes but the last:
//
//   y = gamma * r * (x - mean(x)) + beta
//
//   dx = gamma * r * (dy - Sum(dy) / n - (x - mean(x)) * r^2 * c / n)
//   dgamma = r * c, dbeta = Sum(dy), with c = Sum((x - mean(x)) * dy)
#ifndef NPU_PRECISION_GRAPH_PASSES_FUSE_TRAINED_NORM_FORM_H_
#define NPU_PRECISION_GRAPH_PASSES_FUSE_TRAINED_NORM_FORM_H_

#include <set>
#include <string>
#include <vector>

#include "graph_passes/fuse/fusion_site.h"
#include "graph_passes/fuse/norm_algebra.h"
#include "graph_passes/graph/graph_view.h"

namespace npu_precision {

struct TrainedNorm {
  static constexpr int kNone = NormAlgebra::kNone;

  NormInput input;
  double epsilon = 0;
  OutputPort gamma{kNone, 0}, beta{kNone, 0};  // node kNone if there is none
  // The nodes of the forward pass: the mean, the variance (kNone if no node yields it alone), the
  // root, and the result y.
  int mean = kNone, variance = kNone, root = kNone, end = kNone;
  // If y is not computed as such, but its terms are added to others: `end` is gamma * r * x,
  // `shift` the rest, and the sum `meeting` of two inputs has the first in one and, in `small`, the
  // second.
  int shift = kNone, small = kNone, meeting = kNone;

  // The gradient, if `dx` is not kNone.
  OutputPort dy{kNone, 0};
  int dx = kNone;
  // The nodes that yield dgamma and dbeta.
  std::vector<int> scaled, sums;
  // What `dx` adds besides, where something else reads x.
  std::vector<OutputPort> others;
  // If dx is summed up in a temporary variable: the nodes that make and change it.
  std::vector<int> variables;
  // Whether a tensor is multiplied with a part of the norm, but no gradient was found.
  bool has_other_gradient = false;

  // The nodes that compute these; none is left if nothing else reads it.
  std::set<int> inner;

  // If it is a batch norm, but not of the form: why, as a clause. The other fields but `root` mean
  // nothing then.
  std::string why_not;
};

// The batch norms of `view` over all axes but the last of tensors of rank 4, with the gradient, in
// the order of the names of their roots, and those of another form. Only the form is checked, not
// who else reads the nodes.
std::vector<TrainedNorm> TrainedNorms(const GraphView& view, const FusionSite& site);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_FUSE_TRAINED_NORM_FORM_H_
