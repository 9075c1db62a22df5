#include "graph_passes/mixlist_warnings.h"

#include <unordered_set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "graph_passes/did_you_mean.h"
#include "graph_passes/fused_ops.h"
#include "graph_passes/op_traits.h"
#include "tensorflow/core/framework/op.h"

namespace npu_precision {
namespace {

bool IsRegistered(const std::string& op) {
  const tensorflow::OpDef* op_def = nullptr;
  return tensorflow::OpRegistry::Global()->LookUpOpDef(op, &op_def).ok();
}

bool NamesAnOp(const MixlistEntry& entry) {
  if (entry.node_pattern != nullptr) return true;
  for (const std::string& op : entry.ops) {
    if (IsRegistered(op)) return true;
  }
  return false;
}

bool LooksLikeNodeName(const std::string& text) {
  return absl::StrContains(text, "/") || absl::StrContains(text, ":");
}

std::vector<std::string> KnownNames(const IrNames& ir_names) {
  std::vector<tensorflow::OpDef> ops;
  tensorflow::OpRegistry::Global()->GetRegisteredOps(&ops);
  std::vector<std::string> names;
  for (const tensorflow::OpDef& op : ops) names.push_back(op.name());
  for (const auto& entry : ir_names) names.push_back(entry.first);
  return names;
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

}  // namespace

std::vector<std::string> UnknownOpWarnings(const OpLists& lists, const IrNames& ir_names) {
  std::vector<std::string> warnings, names;
  for (const MixlistEntry& entry : lists.edits()) {
    if (NamesAnOp(entry)) continue;
    if (ir_names.count(entry.text) != 0) {
      warnings.push_back(absl::StrCat(entry.place, ": ", Quoted(entry.text),
                                      " is an Ascend op that no op type of this TensorFlow "
                                      "corresponds to, so it has no effect"));
      continue;
    }
    if (names.empty()) names = KnownNames(ir_names);
    warnings.push_back(absl::StrCat(
        entry.place, ": ", Quoted(entry.text), " is not an op type of TensorFlow or Ascend",
        LooksLikeNodeName(entry.text) ? "; entries for nodes are \"node:<regular expression>\""
                                      : DidYouMean(entry.text, names)));
  }
  return warnings;
}

std::vector<std::string> UnmatchedWarnings(const OpLists& lists, const GraphView& view,
                                           int lowered) {
  if (lists.edits().empty()) return {};
  std::unordered_set<std::string> ops;
  bool computes = lowered > 0;
  for (int id = 0; id < view.size(); ++id) {
    for (const std::string& op : OpsOf(view.node(id))) {
      ops.insert(op);
      computes |= IsMatrixOrConvolution(op);
    }
  }
  if (!computes) return {};
  std::vector<std::string> warnings;
  for (const MixlistEntry& entry : lists.edits()) {
    if (!NamesAnOp(entry) || entry.for_any_graph) continue;  // the former are warned about already
    if (Matches(entry, ops, view)) continue;
    warnings.push_back(
        absl::StrCat(entry.place, ": ", Quoted(entry.text), " matches no node of the graph"));
  }
  return warnings;
}

}  // namespace npu_precision
