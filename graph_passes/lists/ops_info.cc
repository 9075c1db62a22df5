#include "graph_passes/lists/ops_info.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "graph_passes/graph/quoted.h"
#include "graph_passes/lists/did_you_mean.h"
#include "graph_passes/lists/json_text.h"
#include "tensorflow/core/lib/core/errors.h"

namespace npu_precision {
namespace {

using tensorflow::Status;
using tensorflow::errors::InvalidArgument;

constexpr char kPrecisionReduce[] = "precision_reduce";

const std::vector<std::string>& DtypeNames() {
  static const auto* names = new std::vector<std::string>{
      "bfloat16", "bool",    "complex128", "complex32",     "complex64",   "double",   "float",
      "float16",  "float32", "float64",    "float8_e4m3fn", "float8_e5m2", "hifloat8", "int1",
      "int16",    "int2",    "int32",      "int4",          "int64",       "int8",     "qint16",
      "qint32",   "qint8",   "quint16",    "quint8",        "resource",    "string",   "uint1",
      "uint16",   "uint32",  "uint64",     "uint8",         "variant"};
  return *names;
}

Status ParseDtypes(const JsonDocument& document, const Json::Value& value, FloatDtypes* dtypes) {
  if (!value.isString()) {
    return InvalidArgument(document.PlaceOf(value), ": got ", JsonTypeName(value),
                           ", expected dtype names separated by commas");
  }
  for (absl::string_view part : absl::StrSplit(value.asString(), ',')) {
    const std::string name(absl::StripAsciiWhitespace(part));
    const auto& known = DtypeNames();
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      return InvalidArgument(document.PlaceOf(value), ": got dtype ", Quoted(name),
                             ", expected one of ", absl::StrJoin(known, ", "),
                             DidYouMean(name, known));
    }
    dtypes->float32 |= name == "float" || name == "float32";
    dtypes->float16 |= name == "float16";
    dtypes->bfloat16 |= name == "bfloat16";
  }
  return Status();
}

// "input12" is argument 12 of the inputs; other keys of CANN's format are not about precision.
bool ArgumentIndex(const std::string& key, const char* kind, int* index) {
  absl::string_view rest(key);
  return absl::ConsumePrefix(&rest, kind) && absl::SimpleAtoi(rest, index) && *index >= 0;
}

// The key without case and separators.
std::string Folded(const std::string& key) {
  return absl::StrReplaceAll(absl::AsciiStrToLower(key), {{"_", ""}, {"-", ""}});
}

Status ParseColor(const JsonDocument& document, const Json::Value& entry, ListColor* color) {
  *color = ListColor::kGray;
  for (const std::string& key : entry.getMemberNames()) {
    if (key == kPrecisionReduce || Folded(key) != Folded(kPrecisionReduce)) continue;
    return InvalidArgument(document.PlaceOf(entry[key]), ": got key ", Quoted(key),
                           "; did you mean '", kPrecisionReduce, "'?");
  }
  if (!entry.isMember(kPrecisionReduce)) return Status();
  const Json::Value& reduce = entry[kPrecisionReduce];
  if (!reduce.isObject()) {
    return InvalidArgument(document.PlaceOf(reduce), ": got ", JsonTypeName(reduce),
                           ", expected {\"flag\": \"true\"} or {\"flag\": \"false\"}");
  }
  for (const std::string& key : reduce.getMemberNames()) {
    if (key == "flag") continue;
    return InvalidArgument(document.PlaceOf(reduce[key]), ": got key ", Quoted(key), " in ",
                           kPrecisionReduce, ", expected flag");
  }
  if (!reduce.isMember("flag")) return Status();
  const Json::Value& flag = reduce["flag"];
  if (flag.isString() && flag.asString() == "true") {
    *color = ListColor::kWhite;
  } else if (flag.isString() && flag.asString() == "false") {
    *color = ListColor::kBlack;
  } else {
    return InvalidArgument(
        document.PlaceOf(flag), ": precision_reduce.flag: got ", JsonTypeName(flag),
        ", expected \"true\" (white) or \"false\" (black); leave it out for gray");
  }
  return Status();
}

Status ParseEntry(const JsonDocument& document, const Json::Value& entry, OpInfo* info) {
  if (!entry.isObject()) {
    return InvalidArgument(document.PlaceOf(entry), ": got ", JsonTypeName(entry),
                           ", expected an object");
  }
  info->place = document.PlaceOf(entry);
  TF_RETURN_IF_ERROR(ParseColor(document, entry, &info->color));
  for (const std::string& key : entry.getMemberNames()) {
    int index;
    std::map<int, FloatDtypes>* arguments = nullptr;
    if (ArgumentIndex(key, "input", &index)) arguments = &info->inputs;
    if (ArgumentIndex(key, "output", &index)) arguments = &info->outputs;
    const Json::Value& argument = entry[key];
    if (arguments == nullptr || !argument.isObject() || !argument.isMember("dtype")) continue;
    TF_RETURN_IF_ERROR(ParseDtypes(document, argument["dtype"], &(*arguments)[index]));
  }
  return Status();
}

}  // namespace

bool FloatDtypes::Allows(tensorflow::DataType dtype) const {
  switch (dtype) {
    case tensorflow::DT_FLOAT:
      return float32;
    case tensorflow::DT_HALF:
      return float16;
    case tensorflow::DT_BFLOAT16:
      return bfloat16;
    default:
      return true;
  }
}

Status ParseOpsInfo(const std::string& file, const std::string& text, const IrNames& ir_names,
                    OpsInfo* ops) {
  JsonDocument document;
  TF_RETURN_IF_ERROR(ParseJson(file, text, &document));
  for (const std::string& name : document.root.getMemberNames()) {
    OpInfo info;
    TF_RETURN_IF_ERROR(ParseEntry(document, document.root[name], &info));
    for (const std::string& op : TensorFlowOps(ir_names, name)) {
      if (op != name && document.root.isMember(op)) continue;
      (*ops)[op] = info;
    }
  }
  return Status();
}

}  // namespace npu_precision
