#include "graph_passes/lists/op_lists.h"

#include <set>

#include "absl/strings/str_cat.h"
#include "graph_passes/graph/quoted.h"
#include "tensorflow/core/lib/core/errors.h"

namespace npu_precision {
namespace {

using tensorflow::Status;

const std::string& BuiltIn() {
  static const auto* text = new std::string("built-in");
  return *text;
}

const std::string& NoFile() {
  static const auto* text = new std::string("no file");
  return *text;
}

const std::string& AllWhite() {
  static const auto* text = new std::string("all_white");
  return *text;
}

const std::string& WhiteOnly() {
  static const auto* text = new std::string("white_only");
  return *text;
}

}  // namespace

void OpLists::AddOpsInfo(DeviceKind kind, OpsInfo ops, bool built_in) {
  for (auto& op : ops) op.second.otherwise = unlisted_.otherwise;
  sources_[static_cast<int>(kind)].push_back({std::move(ops), built_in});
}

const OpInfo* OpLists::Find(const std::string& op, DeviceKind kind, bool* built_in) const {
  for (DeviceKind where : {kind, DeviceKind::kOther}) {
    const auto sources = sources_.find(static_cast<int>(where));
    if (sources == sources_.end()) continue;
    for (auto source = sources->second.rbegin(); source != sources->second.rend(); ++source) {
      const auto found = source->ops.find(op);
      if (found == source->ops.end()) continue;
      *built_in = source->built_in;
      return &found->second;
    }
  }
  return nullptr;
}

const OpInfo& OpLists::Info(const std::string& op, DeviceKind kind) const {
  bool built_in;
  const OpInfo* info = Find(op, kind, &built_in);
  return info == nullptr ? unlisted_ : *info;
}

bool OpLists::ComputesIn(tensorflow::DataType dtype) const {
  if (unlisted_.otherwise.Allows(dtype)) return true;
  for (const auto& sources : sources_) {
    for (const Source& source : sources.second) {
      for (const auto& op : source.ops) {
        for (const auto& input : op.second.inputs) {
          if (input.second.Allows(dtype)) return true;
        }
        for (const auto& output : op.second.outputs) {
          if (output.second.Allows(dtype)) return true;
        }
      }
    }
  }
  return false;
}

void OpLists::Edit(std::vector<MixlistEntry> entries, std::vector<std::string>* warnings) {
  edits_ = std::move(entries);
  std::set<std::string> added;
  for (size_t i = 0; i < edits_.size(); ++i) {
    const bool stays_gray = !edits_[i].add && edits_[i].list == ListColor::kGray;
    if (edits_[i].node_pattern != nullptr && stays_gray) {
      warnings->push_back(
          absl::StrCat(edits_[i].place, ": ", Quoted(edits_[i].text), " ", kStaysGray));
    } else if (edits_[i].node_pattern != nullptr) {
      node_edits_.push_back(i);
    }
    if (!edits_[i].add) continue;
    for (const std::string& op : edits_[i].ops) {
      edit_of_op_.emplace(op, i);
      added.insert(op);
    }
  }
  for (size_t i = 0; i < edits_.size(); ++i) {
    const MixlistEntry& entry = edits_[i];
    if (entry.add || entry.node_pattern != nullptr) continue;
    for (const std::string& op : entry.ops) {
      if (added.count(op) != 0) continue;
      bool was_on_list = false;
      for (DeviceKind kind : {DeviceKind::kOther, DeviceKind::kCpu, DeviceKind::kGpu}) {
        was_on_list |= OfOp(op, kind).color == entry.list;
      }
      if (was_on_list && entry.list == ListColor::kGray) {
        warnings->push_back(absl::StrCat(entry.place, ": ", Quoted(op), " ", kStaysGray));
      } else if (was_on_list) {
        edit_of_op_.emplace(op, i);
      } else {
        warnings->push_back(absl::StrCat(entry.place, ": ", Quoted(op), " is not on the ",
                                         ListColorName(entry.list),
                                         " list, so removing it changes nothing"));
      }
    }
  }
}

Listing OpLists::OfOp(const std::string& op, DeviceKind kind) const {
  const Listing listing = OfOpInLists(op, kind);
  return listing.edited == Edited::kNo ? ByDefault(listing) : listing;
}

Listing OpLists::OfOpInLists(const std::string& op, DeviceKind kind) const {
  Listing listing;
  bool built_in;
  const OpInfo* info = Find(op, kind, &built_in);
  listing.listed_by = info == nullptr ? &NoFile() : built_in ? &BuiltIn() : &info->place;
  if (info != nullptr) {
    listing.color = info->color;
    listing.why = &info->why;
  }
  const auto edit = edit_of_op_.find(op);
  if (edit == edit_of_op_.end()) return listing;
  const MixlistEntry& entry = edits_[edit->second];
  if (!entry.add && entry.list != listing.color) return listing;
  listing.color = entry.add ? entry.list : ListColor::kGray;
  listing.listed_by = &entry.place;
  listing.edited = Edited::kByOpType;
  listing.why = nullptr;
  return listing;
}

Listing OpLists::ByDefault(const Listing& listing) const {
  if (white_only_ && listing.color == ListColor::kGray) {
    return {ListColor::kBlack, &WhiteOnly(), false, Edited::kNo};
  }
  const bool changes = listing.color == ListColor::kGray || listing.color == ListColor::kBlack;
  if (!all_white_ || !changes) return listing;
  return {ListColor::kWhite, &AllWhite(), true, Edited::kNo};
}

Status OpLists::OfNode(const std::string& name, const std::vector<std::string>& ops,
                       DeviceKind kind, Listing* listing) const {
  *listing = OfOp(ops.front(), kind);
  for (const std::string& op : ops) {
    const Listing part = OfOp(op, kind);
    if (part.color != ListColor::kBlack) continue;
    *listing = part;
    break;
  }
  // Entries refer to the lists without all_white and white_only.
  const bool is_by_default = listing->white_by_default || listing->listed_by == &WhiteOnly();
  const ListColor by_op = is_by_default ? OfOpInLists(ops.front(), kind).color : listing->color;
  const MixlistEntry* decided = nullptr;
  for (size_t i : node_edits_) {
    const MixlistEntry& entry = edits_[i];
    if (!RE2::FullMatch(name, *entry.node_pattern)) continue;
    if (!entry.add) {
      if (decided == nullptr && by_op == entry.list) {
        *listing = {ListColor::kGray, &entry.place, false, Edited::kByName};
      }
      continue;
    }
    if (decided != nullptr && decided->list != entry.list) {
      return tensorflow::errors::InvalidArgument(
          "node ", Quoted(name), " matches ", Quoted(decided->text), " (added to ",
          ListColorName(decided->list), "-list at ", decided->place, ") and ", Quoted(entry.text),
          " (added to ", ListColorName(entry.list), "-list at ", entry.place,
          "); it can be on one list only");
    }
    decided = &entry;
    *listing = {entry.list, &entry.place, false, Edited::kByName};
  }
  return Status();
}

}  // namespace npu_precision
