#include "graph_passes/lists/lint_custom_dtypes.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph_passes/graph/quoted.h"
#include "graph_passes/lists/custom_dtypes.h"
#include "graph_passes/lists/mixlist_warnings.h"

namespace npu_precision {
namespace {

using Findings = std::vector<LintFinding>;

LintFinding Finding(Severity severity, const char* rule, const std::string& place,
                    const std::string& text) {
  LintFinding finding;
  finding.severity = severity;
  finding.rule = rule;
  finding.place = place;
  finding.text = text;
  return finding;
}

LintFinding FindingAbout(const CustomDtypes& line, Severity severity, const char* rule,
                         const std::string& text) {
  return Finding(severity, rule, line.place, absl::StrCat(Quoted(line.subject), " ", text));
}

void SetFix(const std::string& replacement, size_t begin, size_t end, LintFinding* finding) {
  finding->fixable = true;
  finding->replacement = replacement;
  finding->begin = begin;
  finding->end = end;
}

void AddProblems(const std::string& file, const std::vector<CustomDtypesProblem>& problems,
                 Findings* findings) {
  for (const CustomDtypesProblem& problem : problems) {
    const char* rule = problem.place == file ? "contradiction" : "structure";
    LintFinding finding = Finding(Severity::kError, rule, problem.place, problem.text);
    if (problem.fixable) SetFix(problem.replacement, problem.begin, problem.end, &finding);
    findings->push_back(std::move(finding));
  }
}

void AddUnknown(const std::vector<CustomDtypes>& lines, const IrNames& ir_names,
                Findings* findings) {
  const std::vector<MixlistEntry> entries = OpTypeEntries(lines);
  for (const EntryWarning& warning : UnknownOpWarnings(entries, ir_names)) {
    const bool is_ascends = ir_names.count(warning.entry->text) != 0;
    LintFinding finding =
        Finding(Severity::kWarning, is_ascends ? "no-counterpart" : "unknown-op",
                warning.entry->place, absl::StrCat(Quoted(warning.entry->text), " ", warning.text));
    if (!warning.meant.empty()) {
      SetFix(warning.meant, warning.entry->begin, warning.entry->end, &finding);
    }
    findings->push_back(std::move(finding));
  }
}

// The line that a later one repeats, or nullptr. A longer list is not a repetition.
const CustomDtypes* Repeated(const CustomDtypes& line,
                             const std::vector<const CustomDtypes*>& firsts) {
  for (const CustomDtypes* first : firsts) {
    if (first->inputs.size() >= line.inputs.size() &&
        first->outputs.size() >= line.outputs.size()) {
      return first;
    }
  }
  return nullptr;
}

void AddNeedless(const std::vector<CustomDtypes>& lines, Findings* findings) {
  std::map<std::pair<bool, std::string>, std::vector<const CustomDtypes*>> firsts;
  for (const CustomDtypes& line : lines) {
    std::vector<const CustomDtypes*>& same = firsts[{line.names_op, line.subject}];
    const CustomDtypes* first = Repeated(line, same);
    if (first != nullptr) {
      LintFinding finding =
          FindingAbout(line, Severity::kWarning, "redundant",
                       absl::StrCat("has these dtypes at ", first->place, " already"));
      SetFix("", line.begin, line.end, &finding);
      findings->push_back(std::move(finding));
      continue;
    }
    same.push_back(&line);
    if (!line.names_op || line.ops.empty()) continue;
    if (std::all_of(line.ops.begin(), line.ops.end(), IsNeverLowered)) {
      LintFinding finding = FindingAbout(line, Severity::kWarning, "never-changed",
                                         "is never changed, whatever its dtypes are to be");
      SetFix("", line.begin, line.end, &finding);
      findings->push_back(std::move(finding));
    } else if (line.ops != std::vector<std::string>{line.subject}) {
      findings->push_back(FindingAbout(line, Severity::kNote, "ascend-name",
                                       absl::StrCat("stands for ", absl::StrJoin(line.ops, ", "))));
    }
  }
}

}  // namespace

std::vector<LintFinding> LintCustomDtypes(const std::string& file, const std::string& text,
                                          const IrNames& ir_names) {
  std::vector<CustomDtypes> lines;
  std::vector<CustomDtypesProblem> problems;
  ReadCustomDtypes(file, text, ir_names, &lines, &problems);
  Findings findings;
  AddProblems(file, problems, &findings);
  AddUnknown(lines, ir_names, &findings);
  if (problems.empty()) AddNeedless(lines, &findings);
  std::stable_sort(
      findings.begin(), findings.end(),
      [](const LintFinding& a, const LintFinding& b) { return a.severity < b.severity; });
  return findings;
}

}  // namespace npu_precision
