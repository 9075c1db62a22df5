#include "graph_passes/mixlist.h"

#include <algorithm>
#include <map>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph_passes/did_you_mean.h"
#include "graph_passes/json_text.h"
#include "tensorflow/core/lib/core/errors.h"

namespace npu_precision {
namespace {

using tensorflow::Status;
using tensorflow::errors::InvalidArgument;

constexpr char kNodePrefix[] = "node:";

const std::vector<std::string>& ListKeys() {
  static const auto* keys = new std::vector<std::string>{"white-list", "black-list", "gray-list"};
  return *keys;
}

const std::vector<std::string>& EditKeys() {
  static const auto* keys = new std::vector<std::string>{"to-add", "to-remove"};
  return *keys;
}

std::string ListKey(ListColor color) { return absl::StrCat(ListColorName(color), "-list"); }

// Every member of `object` must be one of `allowed`.
Status CheckKeys(const JsonDocument& document, const Json::Value& object,
                 const std::vector<std::string>& allowed) {
  for (const std::string& key : object.getMemberNames()) {
    if (std::find(allowed.begin(), allowed.end(), key) != allowed.end()) continue;
    return InvalidArgument(document.PlaceOf(object[key]), ": got key ", Quoted(key),
                           ", expected one of ", absl::StrJoin(allowed, ", "),
                           DidYouMean(key, allowed));
  }
  return Status();
}

Status ParseEntry(const JsonDocument& document, const Json::Value& value, const IrNames& ir_names,
                  MixlistEntry* entry) {
  if (!value.isString() || value.asString().empty()) {
    return InvalidArgument(document.PlaceOf(value), ": got ", JsonTypeName(value),
                           ", expected an op type or \"node:<regular expression>\"");
  }
  entry->text = value.asString();
  entry->place = document.PlaceOf(value);
  if (!absl::StartsWith(entry->text, kNodePrefix)) {
    entry->ops = TensorFlowOps(ir_names, entry->text);
    return Status();
  }
  const std::string pattern = entry->text.substr(sizeof(kNodePrefix) - 1);
  RE2::Options quiet;
  quiet.set_log_errors(false);
  entry->node_pattern = std::make_shared<const RE2>(pattern, quiet);
  if (!entry->node_pattern->ok()) {
    return InvalidArgument(entry->place, ": ", Quoted(pattern),
                           " is not a regular expression in RE2's syntax: ",
                           absl::CHexEscape(entry->node_pattern->error()));
  }
  return Status();
}

Status ParseList(const JsonDocument& document, const Json::Value& list, ListColor color,
                 const IrNames& ir_names, std::vector<MixlistEntry>* entries) {
  if (!list.isObject()) {
    return InvalidArgument(document.PlaceOf(list), ": ", ListKey(color), ": got ",
                           JsonTypeName(list), ", expected an object with to-add and to-remove");
  }
  TF_RETURN_IF_ERROR(CheckKeys(document, list, EditKeys()));
  for (const std::string& key : EditKeys()) {
    if (!list.isMember(key)) continue;
    const Json::Value& values = list[key];
    if (!values.isArray()) {
      return InvalidArgument(document.PlaceOf(values), ": ", key, " of ", ListKey(color), ": got ",
                             JsonTypeName(values), ", expected a list of strings");
    }
    for (const Json::Value& value : values) {
      MixlistEntry entry;
      entry.list = color;
      entry.add = key == "to-add";
      TF_RETURN_IF_ERROR(ParseEntry(document, value, ir_names, &entry));
      entries->push_back(std::move(entry));
    }
  }
  return Status();
}

// What an entry is about: op types by name, patterns by their text.
std::vector<std::string> Subjects(const MixlistEntry& entry) {
  if (entry.node_pattern != nullptr) return {entry.text};
  return entry.ops;
}

std::string Told(const MixlistEntry& entry, const std::string& subject) {
  return absl::StrCat(entry.add ? "added to " : "removed from ", ListKey(entry.list), " at ",
                      entry.place,
                      entry.text == subject ? "" : absl::StrCat(" (as ", Quoted(entry.text), ")"));
}

Status CheckContradictions(const std::string& file, const std::vector<MixlistEntry>& entries) {
  std::map<std::string, const MixlistEntry*> added;
  for (const MixlistEntry& entry : entries) {
    if (!entry.add) continue;
    for (const std::string& subject : Subjects(entry)) {
      const MixlistEntry*& first = added[subject];
      if (first == nullptr) first = &entry;
      if (first->list == entry.list) continue;
      return InvalidArgument(file, ": ", Quoted(subject), " is ", Told(*first, subject), " and ",
                             Told(entry, subject), "; it can be on one list only");
    }
  }
  for (const MixlistEntry& entry : entries) {
    if (entry.add) continue;
    for (const std::string& subject : Subjects(entry)) {
      const auto first = added.find(subject);
      if (first == added.end() || first->second->list != entry.list) continue;
      return InvalidArgument(file, ": ", Quoted(subject), " is ", Told(*first->second, subject),
                             " and ", Told(entry, subject), "; keep one of the two");
    }
  }
  return Status();
}

}  // namespace

Status ParseMixlist(const std::string& file, const std::string& text, const IrNames& ir_names,
                    std::vector<MixlistEntry>* entries) {
  JsonDocument document;
  TF_RETURN_IF_ERROR(ParseJson(file, text, &document));
  TF_RETURN_IF_ERROR(CheckKeys(document, document.root, ListKeys()));
  for (ListColor color : {ListColor::kBlack, ListColor::kWhite, ListColor::kGray}) {
    if (!document.root.isMember(ListKey(color))) continue;
    TF_RETURN_IF_ERROR(
        ParseList(document, document.root[ListKey(color)], color, ir_names, entries));
  }
  return CheckContradictions(file, *entries);
}

}  // namespace npu_precision
