// Finds wrong, suspicious or needless entries in a mixlist. Nothing is applied.
#ifndef NPU_PRECISION_GRAPH_PASSES_LISTS_LINT_MIXLIST_H_
#define NPU_PRECISION_GRAPH_PASSES_LISTS_LINT_MIXLIST_H_

#include <string>
#include <vector>

#include "graph_passes/lists/mixlist.h"
#include "graph_passes/lists/op_lists.h"
#include "graph_passes/lists/severity.h"
#include "tensorflow/core/lib/core/status.h"

namespace npu_precision {

struct LintFinding {
  Severity severity;
  const char* rule;  // "unknown-op"
  std::string place;
  std::string text;
  // If there is a fix, `replacement` replaces the entry at these offsets of the file. If it is
  // empty, the entry is removed.
  bool fixable = false;
  std::string replacement;
  size_t begin = 0, end = 0, previous_end = 0;
};

// Whether an op keeps its dtype whatever list it is on.
bool IsNeverLowered(const std::string& op);

// `target` has the lists of the target, without the edits. Returns an error if the text is not a
// JSON object.
tensorflow::Status LintMixlist(const std::string& file, const std::string& text,
                               const IrNames& ir_names, const OpLists& target,
                               std::vector<LintFinding>* findings,
                               JsonPlaces places = JsonPlaces::kLines);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_LISTS_LINT_MIXLIST_H_
