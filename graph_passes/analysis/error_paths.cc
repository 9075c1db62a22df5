#include "graph_passes/analysis/error_paths.h"

#include <algorithm>
#include <unordered_set>

#include "graph_passes/graph/op_traits.h"
#include "tensorflow/core/framework/types.h"

namespace npu_precision {

bool HasErrors(tensorflow::DataType dtype) {
  return tensorflow::DataTypeIsFloating(dtype) || tensorflow::DataTypeIsComplex(dtype);
}

bool EndsErrorPath(const std::string& op) {
  static const auto* names = new std::unordered_set<std::string>{"Enter", "NextIteration", "Exit"};
  return names->count(op) != 0 || IsNeutralSource(op) || HasElementDtype(op) || ReadsShapesOnly(op);
}

bool AveragesErrors(const std::string& op) {
  static const auto* names =
      new std::unordered_set<std::string>{"Sum",        "Mean",          "Prod",
                                          "L2Loss",     "EuclideanNorm", "Cumsum",
                                          "Cumprod",    "SegmentSum",    "UnsortedSegmentSum",
                                          "BiasAddGrad"};
  return names->count(op) != 0;
}

bool ErrorPathEnds::EntersUnchanged(int id) const {
  if (view_.node(id).op() != "Enter") return false;
  const auto uses = view_.fanout(id);
  return std::none_of(uses.begin(), uses.end(),
                      [this](const InputPort& use) { return IsMerge(view_.node(use.node).op()); });
}

bool ErrorPathEnds::Has(const OutputPort& tensor) const {
  const int id = tensor.node;
  return view_.op_def(id) == nullptr || view_.calls_function(id) ||
         view_.GroupOf(tensor) == kNoGroup || !HasErrors(view_.dtype(tensor)) ||
         (ends_.Has(id) && !EntersUnchanged(id)) || ends_path_[id] ||
         fed_.count(view_.node(id).name()) != 0;
}

}  // namespace npu_precision
