#include "graph_passes/lists/lint_mixlist.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph_passes/graph/op_traits.h"
#include "graph_passes/graph/quoted.h"
#include "graph_passes/graph/registered_ops.h"
#include "graph_passes/lists/known_ops.h"
#include "graph_passes/lists/mixlist_warnings.h"
#include "tensorflow/core/lib/core/errors.h"

namespace npu_precision {
namespace {

using Entries = std::vector<MixlistEntry>;
using Findings = std::vector<LintFinding>;

LintFinding About(const MixlistEntry& entry, Severity severity, const char* rule,
                  const std::string& text) {
  LintFinding finding;
  finding.severity = severity;
  finding.rule = rule;
  finding.place = entry.place;
  finding.text = absl::StrCat(Quoted(entry.text), " ", text);
  return finding;
}

void SetFix(const MixlistEntry& entry, const std::string& replacement, LintFinding* finding) {
  finding->fixable = true;
  finding->replacement = replacement;
  finding->begin = entry.begin;
  finding->end = entry.end;
  finding->previous_end = entry.previous_end;
}

// The op types that an entry names, or the text of its pattern.
std::vector<std::string> Subjects(const MixlistEntry& entry) {
  return entry.node_pattern != nullptr ? std::vector<std::string>{entry.text} : entry.ops;
}

bool IsOnList(const OpLists& target, const std::string& op, ListColor list, bool everywhere) {
  int on = 0;
  for (DeviceKind kind : {DeviceKind::kOther, DeviceKind::kCpu, DeviceKind::kGpu}) {
    on += target.OfOp(op, kind).color == list;
  }
  return everywhere ? on == 3 : on > 0;
}

// Finds entries that change nothing.
class Redundancy {
 public:
  Redundancy(const Entries& entries, const OpLists& target) : target_(target) {
    for (const MixlistEntry& entry : entries) {
      for (const std::string& subject : Subjects(entry)) {
        firsts_.emplace(Key{subject, entry.list, entry.add}, &entry);
        if (entry.add) added_.emplace(subject, &entry);
      }
    }
  }

  // The reason why the entry changes nothing, or "".
  std::string Of(const MixlistEntry& entry) const {
    const std::vector<std::string> subjects = Subjects(entry);
    const MixlistEntry* first = nullptr;
    for (const std::string& subject : subjects) {
      first = firsts_.at(Key{subject, entry.list, entry.add});
      if (first == &entry) break;
    }
    const std::string key = MixlistKey(entry.list);
    if (first != &entry) {
      return absl::StrCat("is ", entry.add ? "added to " : "removed from ", key, " at ",
                          first->place, " already");
    }
    if (entry.node_pattern != nullptr) {
      if (entry.add) return "";
      const std::string elsewhere = AddedElsewhere(entry, subjects);
      return elsewhere.empty() && entry.list == ListColor::kGray ? kStaysGray : elsewhere;
    }
    if (entry.add) {
      const bool there = std::all_of(subjects.begin(), subjects.end(), [&](const std::string& op) {
        return IsOnList(target_, op, entry.list, true);
      });
      return there ? absl::StrCat("is on the target's ", key, " already") : "";
    }
    const bool absent = std::none_of(subjects.begin(), subjects.end(), [&](const std::string& op) {
      return IsOnList(target_, op, entry.list, false);
    });
    if (absent) {
      return absl::StrCat("is not on the target's ", key, ", so removing it changes nothing");
    }
    const std::string elsewhere = AddedElsewhere(entry, subjects);
    return elsewhere.empty() && entry.list == ListColor::kGray ? kStaysGray : elsewhere;
  }

 private:
  struct Key {
    std::string subject;
    ListColor list;
    bool add;
    bool operator<(const Key& other) const {
      return std::tie(subject, list, add) < std::tie(other.subject, other.list, other.add);
    }
  };

  // Explains that a removal is redundant because the op is added to a list, which takes it off all
  // others. Returns "" if it is not.
  std::string AddedElsewhere(const MixlistEntry& entry,
                             const std::vector<std::string>& subjects) const {
    const MixlistEntry* where = nullptr;
    for (const std::string& subject : subjects) {
      const auto added = added_.find(subject);
      if (added == added_.end()) return "";
      where = added->second;
    }
    return absl::StrCat("is added to ", MixlistKey(where->list), " at ", where->place,
                        ", which takes it off ", MixlistKey(entry.list));
  }

  const OpLists& target_;
  std::map<Key, const MixlistEntry*> firsts_;
  std::map<std::string, const MixlistEntry*> added_;
};

void FindUnknown(const Entries& entries, const IrNames& ir_names,
                 std::set<const MixlistEntry*>* unknown, Findings* findings) {
  for (const MixlistEntry& entry : entries) {
    if (!IsAscendsAlone(entry.text, ir_names)) continue;
    unknown->insert(&entry);
    findings->push_back(About(entry, Severity::kNote, "no-counterpart",
                              absl::StrCat("is an op type of Ascend that this TensorFlow lacks, "
                                           "so it has no effect here",
                                           SeveralOps(entry.text))));
  }
  for (const EntryWarning& warning : UnknownOpWarnings(entries, ir_names)) {
    LintFinding finding = About(*warning.entry, Severity::kWarning, "unknown-op", warning.text);
    if (!warning.meant.empty()) SetFix(*warning.entry, warning.meant, &finding);
    unknown->insert(warning.entry);
    findings->push_back(std::move(finding));
  }
}

// The rule by which an entry is needless, with an explanation. The text is empty if it is not
// needless.
std::pair<const char*, std::string> WhyNeedless(const MixlistEntry& entry,
                                                const Redundancy& redundancy) {
  const bool changes = entry.node_pattern != nullptr ||
                       !std::all_of(entry.ops.begin(), entry.ops.end(), IsNeverLowered);
  if (!changes) {
    return {"never-changed", "is never changed, whatever list it is on"};
  }
  return {"redundant", redundancy.Of(entry)};
}

}  // namespace

bool IsNeverLowered(const std::string& op) {
  if (IsNeutralSource(op)) return true;
  const tensorflow::OpDef* op_def = RegisteredOp(op);
  return op_def != nullptr && NeverChanges(op, op_def);
}

tensorflow::Status LintMixlist(const std::string& file, const std::string& text,
                               const IrNames& ir_names, const OpLists& target,
                               std::vector<LintFinding>* findings, JsonPlaces places) {
  Entries entries;
  std::vector<MixlistProblem> problems;
  TF_RETURN_IF_ERROR(ReadMixlist(file, text, ir_names, &entries, &problems, places));
  for (const MixlistProblem& problem : problems) {
    LintFinding finding;
    finding.severity = Severity::kError;
    finding.rule = problem.place == file ? "contradiction" : "structure";
    finding.place = problem.place;
    finding.text = problem.text;
    findings->push_back(std::move(finding));
  }
  std::set<const MixlistEntry*> unknown;
  FindUnknown(entries, ir_names, &unknown, findings);
  const Redundancy redundancy(entries, target);
  for (const MixlistEntry& entry : entries) {
    if (unknown.count(&entry) != 0) continue;
    if (entry.node_pattern == nullptr && entry.ops != std::vector<std::string>{entry.text}) {
      findings->push_back(About(entry, Severity::kNote, "ascend-name",
                                absl::StrCat("stands for ", absl::StrJoin(entry.ops, ", "))));
    }
    const auto needless = WhyNeedless(entry, redundancy);
    if (needless.second.empty() || !problems.empty()) continue;
    LintFinding finding = About(entry, Severity::kWarning, needless.first, needless.second);
    SetFix(entry, "", &finding);
    findings->push_back(std::move(finding));
  }
  std::stable_sort(
      findings->begin(), findings->end(),
      [](const LintFinding& a, const LintFinding& b) { return a.severity < b.severity; });
  return tensorflow::Status();
}

}  // namespace npu_precision
