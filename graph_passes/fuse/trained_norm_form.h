// Recognizes a batch norm in training that is written as single ops, as Keras 3 and tf.nn.moments
// with tf.nn.batch_normalization write it, with its gradient:
//
//   m = Mean(x), v = Mean(SquaredDifference(x, m)), r = Rsqrt(v + epsilon), s = r * gamma
//   y = x * s + (beta - m * s)
//
//   dx = dy * s - Sum(dy) * s / n + 2 / n * RsqrtGrad(r, c * gamma) * (x - m)
//   c  = Sum(x * dy) - m * Sum(dy)
#ifndef NPU_PRECISION_GRAPH_PASSES_FUSE_TRAINED_NORM_FORM_H_
#define NPU_PRECISION_GRAPH_PASSES_FUSE_TRAINED_NORM_FORM_H_

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "graph_passes/fuse/fusion_site.h"
#include "graph_passes/graph/graph_view.h"

namespace npu_precision {

struct TrainedNorm {
  static constexpr int kNone = -1;

  OutputPort x{};
  int64_t channels = 0;
  int64_t places = 0;  // elements of a channel; -1 if it is not known
  double epsilon = 0;
  OutputPort gamma{kNone, 0}, beta{kNone, 0};  // node kNone if there is none
  // The nodes of the forward pass: the two means, the root r, and the sum y.
  int mean = kNone, variance = kNone, root = kNone, end = kNone;
  // If y is not computed as such, but its terms are added to others: `end` is x * s, `shift` is
  // beta - m * s, and the sum `meeting` of two inputs has x * s in one and, in `small`, the shift.
  int shift = kNone, small = kNone, meeting = kNone;

  // The gradient, if `dx` is not kNone: the nodes that yield dx, Sum(dy) and c.
  OutputPort dy{kNone, 0};
  int dx = kNone, sum = kNone, centred = kNone;
  // What `dx` adds besides, where something else reads x.
  std::vector<OutputPort> others;
  // If dx is summed up in a temporary variable: the nodes that make and change it.
  std::vector<int> variables;

  // The nodes that compute these; none is left if nothing else reads it.
  std::set<int> inner;

  // If it is a batch norm, but not of the form: why, as a clause. The other fields but `root` mean
  // nothing then.
  std::string why_not;
};

// The batch norms of `view` over all axes but the last of tensors of rank 4, with the gradient
// where that is as above, in the order of the names of their roots, and those of another form. Only
// the form is checked, not who else reads the nodes.
std::vector<TrainedNorm> TrainedNorms(const GraphView& view, const FusionSite& site);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_FUSE_TRAINED_NORM_FORM_H_
