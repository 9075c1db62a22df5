#include "graph_passes/lists/lint_ops_info.h"

#include <algorithm>

#include "tensorflow/core/lib/core/errors.h"

namespace npu_precision {

tensorflow::Status LintOpsInfo(const std::string& file, const std::string& text,
                               const IrNames& ir_names, std::vector<LintFinding>* findings) {
  std::vector<OpsInfoEntry> entries;
  std::vector<OpsInfoProblem> problems;
  TF_RETURN_IF_ERROR(ReadOpsInfo(file, text, &entries, &problems));
  OpsInfo ops;
  AddEntries(entries, ir_names, &ops, &problems);
  FindUnknownOps(entries, ir_names, &problems);
  for (const OpsInfoProblem& problem : problems) {
    LintFinding finding;
    finding.severity = problem.severity;
    finding.rule = problem.rule;
    finding.place = problem.place;
    finding.text = problem.text;
    findings->push_back(std::move(finding));
  }
  std::stable_sort(
      findings->begin(), findings->end(),
      [](const LintFinding& a, const LintFinding& b) { return a.severity < b.severity; });
  return tensorflow::Status();
}

}  // namespace npu_precision
