// Recognizes float constants that are not weights: a scalar, or a few values repeated, as in a
// mask.
#ifndef NPU_PRECISION_GRAPH_PASSES_ANALYSIS_FEW_VALUES_H_
#define NPU_PRECISION_GRAPH_PASSES_ANALYSIS_FEW_VALUES_H_

#include <vector>

#include "graph_passes/analysis/value_range.h"
#include "graph_passes/graph/constant_values.h"
#include "tensorflow/core/framework/node_def.pb.h"

namespace npu_precision {

// The distinct values of a Const, in order of appearance. Empty if there are more than four, or if
// they are not float values.
std::vector<float> FewValues(const tensorflow::NodeDef& constant, const ConstantValues& values);

// The range of a Const with few values. Weights have an unknown range, so that a model gets the
// same decisions after another training, and frozen the same as with variables.
ValueRange RangeOfConstant(const tensorflow::NodeDef& constant, const ConstantValues& values);

// Whether the constant has one element.
bool IsNumber(const tensorflow::NodeDef& constant, const ConstantValues& values);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_ANALYSIS_FEW_VALUES_H_
