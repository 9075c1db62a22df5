#include "graph_passes/lists/mixlist.h"

#include <algorithm>
#include <map>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph_passes/graph/quoted.h"
#include "graph_passes/lists/did_you_mean.h"
#include "graph_passes/lists/json_text.h"
#include "tensorflow/core/lib/core/errors.h"

namespace npu_precision {
namespace {

using tensorflow::Status;
using Problems = std::vector<MixlistProblem>;

constexpr char kNodePrefix[] = "node:";

const std::vector<std::string>& ListKeys() {
  static const auto* keys = new std::vector<std::string>{"white-list", "black-list", "gray-list"};
  return *keys;
}

const std::vector<std::string>& EditKeys() {
  static const auto* keys = new std::vector<std::string>{"to-add", "to-remove"};
  return *keys;
}

// Every member of `object` must be one of `allowed`.
void CheckKeys(const JsonDocument& document, const Json::Value& object,
               const std::vector<std::string>& allowed, Problems* problems) {
  for (const std::string& key : object.getMemberNames()) {
    if (std::find(allowed.begin(), allowed.end(), key) != allowed.end()) continue;
    problems->push_back({document.PlaceOf(object[key]),
                         absl::StrCat("got key ", Quoted(key), ", expected one of ",
                                      absl::StrJoin(allowed, ", "), DidYouMean(key, allowed))});
  }
}

// Reads one entry. Returns false, and adds a problem, if `value` is not an entry.
bool ReadEntry(const JsonDocument& document, const Json::Value& value, const IrNames& ir_names,
               MixlistEntry* entry, Problems* problems) {
  entry->place = document.PlaceOf(value);
  if (!value.isString() || value.asString().empty()) {
    problems->push_back(
        {entry->place, absl::StrCat("got ", JsonTypeName(value),
                                    ", expected an op type or \"node:<regular expression>\"")});
    return false;
  }
  entry->text = value.asString();
  entry->begin = document.BeginOf(value);
  entry->end = document.EndOf(value);
  if (!absl::StartsWith(entry->text, kNodePrefix)) {
    entry->ops = TensorFlowOps(ir_names, entry->text);
    return true;
  }
  const std::string pattern = entry->text.substr(sizeof(kNodePrefix) - 1);
  RE2::Options quiet;
  quiet.set_log_errors(false);
  entry->node_pattern = std::make_shared<const RE2>(pattern, quiet);
  if (entry->node_pattern->ok()) return true;
  problems->push_back(
      {entry->place, absl::StrCat(Quoted(pattern), " is not a regular expression in RE2's syntax: ",
                                  absl::CHexEscape(entry->node_pattern->error()))});
  return false;
}

void ReadList(const JsonDocument& document, const Json::Value& list, ListColor color,
              const IrNames& ir_names, std::vector<MixlistEntry>* entries, Problems* problems) {
  if (!list.isObject()) {
    problems->push_back(
        {document.PlaceOf(list), absl::StrCat(MixlistKey(color), ": got ", JsonTypeName(list),
                                              ", expected an object with to-add and to-remove")});
    return;
  }
  CheckKeys(document, list, EditKeys(), problems);
  for (const std::string& key : EditKeys()) {
    if (!list.isMember(key)) continue;
    const Json::Value& values = list[key];
    if (!values.isArray()) {
      problems->push_back({document.PlaceOf(values),
                           absl::StrCat(key, " of ", MixlistKey(color), ": got ",
                                        JsonTypeName(values), ", expected a list of strings")});
      continue;
    }
    size_t previous_end = 0;
    for (const Json::Value& value : values) {
      MixlistEntry entry;
      entry.list = color;
      entry.add = key == "to-add";
      entry.previous_end = previous_end;
      previous_end = document.EndOf(value);
      if (ReadEntry(document, value, ir_names, &entry, problems)) {
        entries->push_back(std::move(entry));
      }
    }
  }
}

// The op types that an entry names, or the text of its pattern.
std::vector<std::string> Subjects(const MixlistEntry& entry) {
  if (entry.node_pattern != nullptr) return {entry.text};
  return entry.ops;
}

std::string Described(const MixlistEntry& entry, const std::string& subject) {
  return absl::StrCat(entry.add ? "added to " : "removed from ", MixlistKey(entry.list), " at ",
                      entry.place,
                      entry.text == subject ? "" : absl::StrCat(" (as ", Quoted(entry.text), ")"));
}

void FindContradictions(const std::string& file, const std::vector<MixlistEntry>& entries,
                        Problems* problems) {
  std::map<std::string, const MixlistEntry*> added;
  for (const MixlistEntry& entry : entries) {
    if (!entry.add) continue;
    for (const std::string& subject : Subjects(entry)) {
      const MixlistEntry*& first = added[subject];
      if (first == nullptr) first = &entry;
      if (first->list == entry.list) continue;
      problems->push_back(
          {file, absl::StrCat(Quoted(subject), " is ", Described(*first, subject), " and ",
                              Described(entry, subject), "; it can be on one list only")});
    }
  }
  for (const MixlistEntry& entry : entries) {
    if (entry.add) continue;
    for (const std::string& subject : Subjects(entry)) {
      const auto first = added.find(subject);
      if (first == added.end() || first->second->list != entry.list) continue;
      problems->push_back(
          {file, absl::StrCat(Quoted(subject), " is ", Described(*first->second, subject), " and ",
                              Described(entry, subject), "; keep one of the two")});
    }
  }
}

}  // namespace

bool IsMixlistItself(const std::string& value) { return absl::StartsWith(value, "{"); }

std::string MixlistKey(ListColor color) { return absl::StrCat(ListColorName(color), "-list"); }

Status ReadMixlist(const std::string& file, const std::string& text, const IrNames& ir_names,
                   std::vector<MixlistEntry>* entries, std::vector<MixlistProblem>* problems,
                   JsonPlaces places) {
  JsonDocument document;
  TF_RETURN_IF_ERROR(ParseJson(file, text, &document, places));
  CheckKeys(document, document.root, ListKeys(), problems);
  for (ListColor color : {ListColor::kBlack, ListColor::kWhite, ListColor::kGray}) {
    if (!document.root.isMember(MixlistKey(color))) continue;
    ReadList(document, document.root[MixlistKey(color)], color, ir_names, entries, problems);
  }
  if (problems->empty()) FindContradictions(file, *entries, problems);
  return Status();
}

Status ParseMixlist(const std::string& file, const std::string& text, const IrNames& ir_names,
                    std::vector<MixlistEntry>* entries, JsonPlaces places) {
  Problems problems;
  TF_RETURN_IF_ERROR(ReadMixlist(file, text, ir_names, entries, &problems, places));
  if (problems.empty()) return Status();
  return tensorflow::errors::InvalidArgument(problems.front().place, ": ", problems.front().text);
}

}  // namespace npu_precision
