// Finds wrong, suspicious or needless lines in a customize_dtypes file.
#ifndef NPU_PRECISION_GRAPH_PASSES_LISTS_LINT_CUSTOM_DTYPES_H_
#define NPU_PRECISION_GRAPH_PASSES_LISTS_LINT_CUSTOM_DTYPES_H_

#include <string>
#include <vector>

#include "graph_passes/lists/lint_mixlist.h"

namespace npu_precision {

// A finding's fix replaces text if `replacement` is not empty; otherwise it removes a line.
std::vector<LintFinding> LintCustomDtypes(const std::string& file, const std::string& text,
                                          const IrNames& ir_names);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_LISTS_LINT_CUSTOM_DTYPES_H_
