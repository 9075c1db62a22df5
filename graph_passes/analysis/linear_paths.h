// Follows a tensor back to what it is a multiple of: through moves, signs and factors that are one
// number.
#ifndef NPU_PRECISION_GRAPH_PASSES_ANALYSIS_LINEAR_PATHS_H_
#define NPU_PRECISION_GRAPH_PASSES_ANALYSIS_LINEAR_PATHS_H_

#include <vector>

#include "graph_passes/graph/constant_values.h"
#include "graph_passes/graph/element_counts.h"
#include "graph_passes/graph/graph_view.h"
#include "graph_passes/graph/op_set.h"

namespace npu_precision {

class LinearPaths {
 public:
  // `elements` may be empty. Paths end at nodes with `ends_path` set, by node id. All arguments
  // must outlive this object.
  LinearPaths(const GraphView& view, const ConstantValues& values, const ElementCounts& elements,
              const std::vector<bool>& ends_path);

  // The tensor that `tensor` is a multiple of. Adds the nodes on the way to `nodes`, and turns
  // `sign` for each negative factor. Both may be nullptr.
  OutputPort Base(OutputPort tensor, std::vector<int>* nodes, int* sign) const;
  OutputPort Base(const OutputPort& tensor) const { return Base(tensor, nullptr, nullptr); }
  // The same, also through ops that pick some of the elements, such as StridedSlice.
  OutputPort PickedBase(OutputPort tensor, std::vector<int>* nodes, int* sign) const;

  // Adds the nodes that compute a tensor from another by such steps, and by sums with a source: an
  // offset or a bias.
  void AddOffsets(OutputPort tensor, std::vector<int>* nodes) const;

  // Whether all elements are one number, as far as is known.
  bool IsNumber(const OutputPort& tensor) const;

 private:
  OutputPort Follow(OutputPort tensor, bool picks, std::vector<int>* nodes, int* sign) const;
  // The input that the node's output is a multiple of; -1 if there is none.
  int Passed(int id, bool picks, int* sign) const;
  bool IsNegative(const OutputPort& number) const;

  const GraphView& view_;
  const ConstantValues& values_;
  const ElementCounts& elements_;
  const std::vector<bool>& ends_path_;
  const OpSet moves_, picks_, negates_, multiplies_, divides_, adds_, sources_, constants_;
};

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_ANALYSIS_LINEAR_PATHS_H_
