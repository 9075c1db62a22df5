// Where the error of a rounded value reaches, and where it does not.
#ifndef NPU_PRECISION_GRAPH_PASSES_ANALYSIS_ERROR_PATHS_H_
#define NPU_PRECISION_GRAPH_PASSES_ANALYSIS_ERROR_PATHS_H_

#include <set>
#include <string>
#include <vector>

#include "graph_passes/graph/graph_view.h"
#include "graph_passes/graph/op_set.h"
#include "tensorflow/core/framework/types.pb.h"

namespace npu_precision {

// Whether a tensor of the dtype has rounding errors: it holds floats or complex numbers. An
// integer, such as a count of the elements above a threshold, has none.
bool HasErrors(tensorflow::DataType dtype);

// Whether the op's outputs were not computed from its inputs for the sake of what reads them:
// sources, lists, shapes, and the ops where a loop begins an iteration.
bool EndsErrorPath(const std::string& op);

// Where a walk back along rounding errors ends.
class ErrorPathEnds {
 public:
  // Walks end at nodes with `ends_path` set, by node id. `fed` are names of nodes whose outputs the
  // caller replaces. All arguments must outlive this object.
  ErrorPathEnds(const GraphView& view, const std::set<std::string>& fed,
                const std::vector<bool>& ends_path)
      : view_(view), fed_(fed), ends_path_(ends_path), ends_(view, EndsErrorPath) {}

  // Whether no error of the tensor comes from what its producer reads, as far as is known.
  bool Has(const OutputPort& tensor) const;

 private:
  // Whether the node is an Enter whose value no iteration changes: no Merge reads it.
  bool EntersUnchanged(int id) const;

  const GraphView& view_;
  const std::set<std::string>& fed_;
  const std::vector<bool>& ends_path_;
  const OpSet ends_;
};

// Whether the op averages the errors of its inputs. Such ops compute in float32 internally.
bool AveragesErrors(const std::string& op);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_ANALYSIS_ERROR_PATHS_H_
