// Where the error of a rounded value reaches, and where it does not.
#ifndef NPU_PRECISION_GRAPH_PASSES_ANALYSIS_ERROR_PATHS_H_
#define NPU_PRECISION_GRAPH_PASSES_ANALYSIS_ERROR_PATHS_H_

#include <string>

#include "tensorflow/core/framework/types.pb.h"

namespace npu_precision {

// Whether a tensor of the dtype has rounding errors: it holds floats or complex numbers. An
// integer, such as a count of the elements above a threshold, has none.
bool HasErrors(tensorflow::DataType dtype);

// Whether the op's outputs were not computed from its inputs for the sake of what reads them:
// sources, lists, shapes, and the ops where a loop begins an iteration.
bool EndsErrorPath(const std::string& op);

// Whether the op averages the errors of its inputs. Such ops compute in float32 internally.
bool AveragesErrors(const std::string& op);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_ANALYSIS_ERROR_PATHS_H_
