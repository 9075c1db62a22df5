// Finds wrong, suspicious or ambiguous entries in an ops-info file, for its author.
#ifndef NPU_PRECISION_GRAPH_PASSES_LISTS_LINT_OPS_INFO_H_
#define NPU_PRECISION_GRAPH_PASSES_LISTS_LINT_OPS_INFO_H_

#include <string>
#include <vector>

#include "graph_passes/lists/lint_mixlist.h"

namespace npu_precision {

// Returns an error if the text is not a JSON object.
tensorflow::Status LintOpsInfo(const std::string& file, const std::string& text,
                               const IrNames& ir_names, std::vector<LintFinding>* findings);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_LISTS_LINT_OPS_INFO_H_
