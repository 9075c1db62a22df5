#include "graph_passes/lists/json_text.h"

#include <algorithm>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "graph_passes/graph/quoted.h"
#include "tensorflow/core/lib/core/errors.h"

namespace npu_precision {
namespace {

using tensorflow::Status;
using tensorflow::errors::InvalidArgument;

constexpr char kByteOrderMark[] = "\xef\xbb\xbf";

std::vector<size_t> LineStarts(const std::string& text) {
  std::vector<size_t> starts = {0};
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\n') starts.push_back(i + 1);
  }
  return starts;
}

std::string Place(const JsonDocument& document, size_t offset) {
  const auto& starts = document.line_starts;
  const auto after = std::upper_bound(starts.begin(), starts.end(), offset);
  if (after - starts.begin() == 1) offset -= document.mark_size;  // editors do not show the mark
  return absl::StrCat(document.file, ":", after - starts.begin(), ":", offset - after[-1] + 1);
}

// The offset of the bracket that opens level kMaxJsonDepth + 1, or npos. jsoncpp's own limit is not
// usable: without exceptions, as in TensorFlow's build, it aborts the process.
size_t TooDeepAt(const std::string& text) {
  int depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') {
      for (++i; i < text.size() && text[i] != '"'; ++i) {
        if (text[i] == '\\') ++i;
      }
    } else if (c == '/' && i + 1 < text.size() && text[i + 1] == '/') {
      i = text.find_first_of("\r\n", i);
      if (i == std::string::npos) break;
    } else if (c == '/' && i + 1 < text.size() && text[i + 1] == '*') {
      i = text.find("*/", i + 2);
      if (i == std::string::npos) break;
      ++i;
    } else if (c == '[' || c == '{') {
      if (++depth > kMaxJsonDepth) return i;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return std::string::npos;
}

// Sets `keys` to the way from `root` to `value`, which is a part of it: `["black-list"][0]`.
bool FindKeys(const Json::Value& root, const Json::Value& value, std::string* keys) {
  if (&root == &value) return true;
  const size_t size = keys->size();
  if (root.isObject()) {
    for (const std::string& key : root.getMemberNames()) {
      absl::StrAppend(keys, "[\"", key, "\"]");
      if (FindKeys(root[key], value, keys)) return true;
      keys->resize(size);
    }
  } else if (root.isArray()) {
    for (Json::ArrayIndex i = 0; i < root.size(); ++i) {
      absl::StrAppend(keys, "[", i, "]");
      if (FindKeys(root[i], value, keys)) return true;
      keys->resize(size);
    }
  }
  return false;
}

// The first error, in one line. jsoncpp writes "* Line 1, Column 2\n  what\n" for each.
std::string FirstError(const std::string& errors) {
  std::vector<std::string> lines = absl::StrSplit(errors, '\n', absl::SkipWhitespace());
  if (lines.empty()) return "not JSON";
  const std::string where(absl::StripPrefix(lines[0], "* "));
  if (lines.size() == 1) return where;
  return absl::StrCat(where, ": ", absl::StripAsciiWhitespace(lines[1]));
}

}  // namespace

std::string JsonDocument::PlaceOf(const Json::Value& value) const {
  if (places == JsonPlaces::kLines) return Place(*this, BeginOf(value));
  std::string keys;
  FindKeys(root, value, &keys);
  return absl::StrCat(file, keys);
}

Status ParseJson(const std::string& file, const std::string& text, JsonDocument* document,
                 JsonPlaces places) {
  if (text.size() > kMaxJsonBytes) {
    return InvalidArgument(file, ": got ", text.size(), " bytes, expected at most ", kMaxJsonBytes);
  }
  document->file = file;
  document->places = places;
  document->text = text;
  document->line_starts = LineStarts(text);
  document->mark_size = absl::StartsWith(text, kByteOrderMark) ? sizeof(kByteOrderMark) - 1 : 0;
  if (text.find_first_not_of(" \t\r\n") == std::string::npos) {
    return InvalidArgument(file, ": the file is empty, expected a JSON object");
  }
  const size_t zero = text.find('\0');
  if (zero != std::string::npos) {
    return InvalidArgument(Place(*document, zero), ": a NUL byte, which no JSON has");
  }
  const size_t too_deep = TooDeepAt(text);
  if (too_deep != std::string::npos) {
    return InvalidArgument(Place(*document, too_deep), ": nested deeper than ", kMaxJsonDepth,
                           " levels");
  }
  Json::CharReaderBuilder builder;
  Json::CharReaderBuilder::strictMode(&builder.settings_);
  builder["allowComments"] = true;
  builder["collectComments"] = false;
  builder["stackLimit"] = 2 * kMaxJsonDepth;
  const std::unique_ptr<Json::CharReader> reader(builder.newCharReader());
  std::string errors;
  if (!reader->parse(text.data() + document->mark_size, text.data() + text.size(), &document->root,
                     &errors)) {
    return InvalidArgument(file, ": not valid JSON. ", FirstError(errors));
  }
  if (!document->root.isObject()) {
    return InvalidArgument(document->PlaceOf(document->root), ": got ",
                           JsonTypeName(document->root), ", expected an object");
  }
  return Status();
}

std::string JsonTypeName(const Json::Value& value) {
  switch (value.type()) {
    case Json::nullValue:
      return "null";
    case Json::intValue:
    case Json::uintValue:
    case Json::realValue:
      return "a number";
    case Json::stringValue:
      return absl::StrCat("the string ", Quoted(value.asString()));
    case Json::booleanValue:
      return value.asBool() ? "true" : "false";
    case Json::arrayValue:
      return "a list";
    case Json::objectValue:
      return "an object";
  }
  return "an unknown value";
}

}  // namespace npu_precision
