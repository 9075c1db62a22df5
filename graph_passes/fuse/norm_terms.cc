#include "graph_passes/fuse/norm_terms.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include "graph_passes/graph/op_traits.h"

namespace npu_precision {

bool NormTerms::Is(int id, const char* op) const {
  return view_.node(id).op() == op && view_.op_def(id) != nullptr;
}

std::vector<NormTerms::Ports> NormTerms::Orders(int id) const {
  if (view_.num_fanin(id) != 2) return {};
  const OutputPort first = view_.fanin(id)[0], second = view_.fanin(id)[1];
  return {{first, second}, {second, first}};
}

bool NormTerms::IsSum(int id) const {
  return AddsAll(view_.node(id).op()) && view_.op_def(id) != nullptr;
}

bool NormTerms::Reduces(int id, const char* op) const {
  if (!Is(id, op) || view_.num_fanin(id) != 2) return false;
  std::vector<int64_t> axes;
  if (!site_.Integers(view_.fanin(id)[1], &axes)) return false;
  std::sort(axes.begin(), axes.end());
  return axes == std::vector<int64_t>{0, 1, 2};
}

bool NormTerms::Reshapes(const std::string& op) {
  return op == "Reshape" || op == "Squeeze" || op == "ExpandDims" || op == "Identity" ||
         op == "StopGradient";
}

OutputPort NormTerms::Shaped(OutputPort tensor, std::set<int>* inner) const {
  for (int hops = 0; hops < kMostHops && Reshapes(view_.node(tensor.node).op()) &&
                     view_.num_fanin(tensor.node) > 0;
       ++hops) {
    inner->insert(tensor.node);
    tensor = view_.fanin(tensor.node)[0];
  }
  return tensor;
}

OutputPort NormTerms::Other(int id, int of) const {
  return view_.fanin(id)[0].node == of ? view_.fanin(id)[1] : view_.fanin(id)[0];
}

bool NormTerms::IsMean(const OutputPort& tensor, TrainedNorm* norm) const {
  return Shaped(tensor, &norm->inner).node == norm->mean;
}

OutputPort NormTerms::Unsigned(OutputPort tensor, double* sign, TrainedNorm* norm) const {
  tensor = Shaped(tensor, &norm->inner);
  while (Is(tensor.node, "Neg") && view_.num_fanin(tensor.node) == 1) {
    norm->inner.insert(tensor.node);
    *sign = -*sign;
    tensor = Shaped(view_.fanin(tensor.node)[0], &norm->inner);
  }
  return tensor;
}

}  // namespace npu_precision
