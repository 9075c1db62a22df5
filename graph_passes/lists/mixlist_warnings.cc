#include "graph_passes/lists/mixlist_warnings.h"

#include <unordered_set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "graph_passes/graph/fused_ops.h"
#include "graph_passes/graph/op_traits.h"
#include "graph_passes/graph/quoted.h"
#include "graph_passes/graph/registered_ops.h"
#include "graph_passes/lists/known_ops.h"

namespace npu_precision {
namespace {

bool NamesAnOp(const MixlistEntry& entry) {
  if (entry.node_pattern != nullptr) return true;
  for (const std::string& op : entry.ops) {
    if (RegisteredOp(op) != nullptr) return true;
  }
  return false;
}

bool LooksLikeNodeName(const std::string& text) {
  return absl::StrContains(text, "/") || absl::StrContains(text, ":");
}

// Whether any of these ops is on the list, on any kind of device.
bool IsOnList(const std::vector<std::string>& ops, ListColor list, const OpLists& lists) {
  for (const std::string& op : ops) {
    for (DeviceKind kind : {DeviceKind::kOther, DeviceKind::kCpu, DeviceKind::kGpu}) {
      if (lists.OfOpInLists(op, kind).color == list) return true;
    }
  }
  return false;
}

// Whether a pattern takes any node off its list.
bool RemovesAny(const MixlistEntry& entry, const OpLists& lists, const GraphView& view) {
  for (int id = 0; id < view.size(); ++id) {
    const auto& node = view.node(id);
    if (RE2::FullMatch(NameInMixlist(node.name()), *entry.node_pattern) &&
        IsOnList(OpsOf(node), entry.list, lists)) {
      return true;
    }
  }
  return false;
}

bool Matches(const MixlistEntry& entry, const std::unordered_set<std::string>& ops,
             const GraphView& view) {
  if (entry.node_pattern == nullptr) {
    for (const std::string& op : entry.ops) {
      if (ops.count(op) != 0) return true;
    }
    return false;
  }
  for (int id = 0; id < view.size(); ++id) {
    if (RE2::FullMatch(NameInMixlist(view.node(id).name()), *entry.node_pattern)) return true;
  }
  return false;
}

std::unordered_set<std::string> OpsIn(const GraphView& view) {
  std::unordered_set<std::string> ops;
  for (int id = 0; id < view.size(); ++id) {
    for (const std::string& op : OpsOf(view.node(id))) ops.insert(op);
  }
  return ops;
}

constexpr char kMatchesNone[] = "matches no node of the graph";

}  // namespace

std::string EntryWarning::Line() const {
  return absl::StrCat(entry->place, ": ", Quoted(entry->text), " ", text);
}

std::vector<EntryWarning> UnknownOpWarnings(const std::vector<MixlistEntry>& entries,
                                            const IrNames& ir_names) {
  std::vector<EntryWarning> warnings;
  for (const MixlistEntry& entry : entries) {
    if (NamesAnOp(entry) || IsAscendsAlone(entry.text, ir_names)) continue;
    const std::string what = "is not an op type of TensorFlow or Ascend";
    if (LooksLikeNodeName(entry.text)) {
      const char* remedy = "; entries for nodes are \"node:<regular expression>\"";
      warnings.push_back({&entry, absl::StrCat(what, remedy), ""});
      continue;
    }
    const OpGuess guess = GuessOp(entry.text, ir_names);
    warnings.push_back({&entry, absl::StrCat(what, guess.did_you_mean), guess.meant});
  }
  return warnings;
}

bool IsWhatListsAreFor(const GraphView& view, int lowered) {
  if (lowered > 0) return true;
  for (int id = 0; id < view.size(); ++id) {
    for (const std::string& op : OpsOf(view.node(id))) {
      if (IsMatrixOrConvolution(op)) return true;
    }
  }
  return false;
}

EntryMatches MatchEntries(const OpLists& lists, const GraphView& view) {
  const std::unordered_set<std::string> ops = OpsIn(view);
  EntryMatches found;
  for (const MixlistEntry& entry : lists.edits()) {
    if (!NamesAnOp(entry) || entry.for_any_graph) continue;  // unknown names have a warning already
    const bool removes_nodes = entry.node_pattern != nullptr && !entry.add;
    if (removes_nodes && entry.list == ListColor::kGray) continue;  // has a warning already
    EntryWarning warning{&entry, kMatchesNone, ""};
    if (removes_nodes) {
      warning.text = absl::StrCat(kMatchesNone, " on the ", ListColorName(entry.list),
                                  " list, so removing it changes nothing");
    }
    if (removes_nodes ? RemovesAny(entry, lists, view) : Matches(entry, ops, view)) {
      found.matched.push_back(warning.Line());
    } else {
      found.unmatched.push_back(warning);
    }
  }
  return found;
}

std::vector<std::string> UnmatchedLines(const CustomDtypesFile& file, const GraphView& view) {
  std::vector<std::string> warnings;
  if (file.empty()) return warnings;
  const std::unordered_set<std::string> ops = OpsIn(view);
  for (const MixlistEntry& entry : OpTypeEntries(file.lines())) {
    if (!NamesAnOp(entry) || Matches(entry, ops, view)) continue;
    warnings.push_back(EntryWarning{&entry, kMatchesNone, ""}.Line());
  }
  std::unordered_set<std::string> names;
  for (int id = 0; id < view.size(); ++id) names.insert(NameInMixlist(view.node(id).name()));
  for (const CustomDtypes& line : file.lines()) {
    if (line.names_op || names.count(line.subject) != 0) continue;
    warnings.push_back(absl::StrCat(line.place, ": ", Quoted(line.subject), " ", kMatchesNone));
  }
  return warnings;
}

}  // namespace npu_precision
