// What the forms of a batch norm in training are made of: single ops, up to the order of factors,
// changes of shape and signs. See trained_norm_form.h.
#ifndef NPU_PRECISION_GRAPH_PASSES_FUSE_NORM_TERMS_H_
#define NPU_PRECISION_GRAPH_PASSES_FUSE_NORM_TERMS_H_

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "graph_passes/fuse/fusion_site.h"
#include "graph_passes/fuse/trained_norm_form.h"
#include "graph_passes/graph/graph_view.h"

namespace npu_precision {

// Nodes that a match passes are added to the `inner` of the norm.
class NormTerms {
 protected:
  using Ports = std::pair<OutputPort, OutputPort>;
  static constexpr int kNone = TrainedNorm::kNone;
  // A bound on the nodes on one path of the form.
  static constexpr int kMostHops = 8;

  // Both must outlive this object.
  NormTerms(const GraphView& view, const FusionSite& site) : view_(view), site_(site) {}

  bool Is(int id, const char* op) const;
  // Whether the node adds up its inputs.
  bool IsSum(int id) const;
  // Whether the node reduces over all axes but the last.
  bool Reduces(int id, const char* op) const;
  // Whether the op changes no more than the shape.
  static bool Reshapes(const std::string& op);

  // The inputs of a node with two, in both orders.
  std::vector<Ports> Orders(int id) const;
  // The input of a node with two that does not come from `of`.
  OutputPort Other(int id, int of) const;

  // What a tensor is before its shape was changed.
  OutputPort Shaped(OutputPort tensor, std::set<int>* inner) const;
  // The same, before its sign was changed too. `sign` is turned for each Neg.
  OutputPort Unsigned(OutputPort tensor, double* sign, TrainedNorm* norm) const;
  bool IsMean(const OutputPort& tensor, TrainedNorm* norm) const;

  // Whether the tensor is a product of two others with the sign: `is_first` and `is_second` say
  // whether a node is one of them.
  template <typename IsFirst, typename IsSecond>
  bool IsProduct(const OutputPort& tensor, double sign, const IsFirst& is_first,
                 const IsSecond& is_second, TrainedNorm* norm) const {
    const int product = Unsigned(tensor, &sign, norm).node;
    if (!Is(product, "Mul") || view_.num_fanin(product) != 2) return false;
    norm->inner.insert(product);
    for (const Ports& sides : Orders(product)) {
      TrainedNorm found = *norm;
      double both = sign;
      const OutputPort first = Unsigned(sides.first, &both, &found);
      const OutputPort second = Unsigned(sides.second, &both, &found);
      if (both != 1 || !is_first(first.node) || !is_second(second.node)) continue;
      *norm = std::move(found);
      return true;
    }
    return false;
  }

  const GraphView& view_;
  const FusionSite& site_;
};

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_FUSE_NORM_TERMS_H_
