// Facts about a target as a whole, besides its ops-info.
#ifndef NPU_PRECISION_GRAPH_PASSES_LISTS_TARGET_FACTS_H_
#define NPU_PRECISION_GRAPH_PASSES_LISTS_TARGET_FACTS_H_

#include <map>
#include <string>

#include "graph_passes/lists/ops_info.h"
#include "tensorflow/core/lib/core/status.h"

namespace npu_precision {

struct TargetFacts {
  std::string lists_of;  // another target, whose lists this target extends; "" for none
  // The dtypes that it computes in where its lists do not say.
  FloatDtypes computes = FloatDtypes::All();
  bool saturates = false;  // float16 overflows to 65504 instead of infinity
  // Modes that lower nodes without float32 kernels also lower the matrix and convolution ops that
  // have them.
  bool lowers_matrix_ops = false;
  // Gray nodes that only move values, and get no vote, follow their consumers where that saves
  // Casts. An Ascend decides without that.
  bool follows_consumers = false;
};

// Reads {"ascend310p": {"lists_of": "ascend910", "dtype": "float16,float32", "saturates": false,
// "lowers_matrix_ops": true, "follows_consumers": false}, ...}, each key of which may be left out.
tensorflow::Status ParseTargetFacts(const std::string& file, const std::string& text,
                                    std::map<std::string, TargetFacts>* facts);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_LISTS_TARGET_FACTS_H_
