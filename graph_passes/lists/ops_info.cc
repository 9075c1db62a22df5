#include "graph_passes/lists/ops_info.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "graph_passes/graph/quoted.h"
#include "graph_passes/lists/did_you_mean.h"
#include "graph_passes/lists/json_text.h"
#include "graph_passes/lists/known_ops.h"
#include "graph_passes/lists/ops_info_keys.h"
#include "tensorflow/core/lib/core/errors.h"

namespace npu_precision {
namespace {

using tensorflow::Status;
using Problems = std::vector<OpsInfoProblem>;

constexpr char kStructure[] = "structure";

const std::vector<std::string>& DtypeNames() {
  static const auto* names = new std::vector<std::string>{
      "bfloat16", "bool",    "complex128", "complex32",     "complex64",   "double",   "float",
      "float16",  "float32", "float64",    "float8_e4m3fn", "float8_e5m2", "hifloat8", "int1",
      "int16",    "int2",    "int32",      "int4",          "int64",       "int8",     "qint16",
      "qint32",   "qint8",   "quint16",    "quint8",        "resource",    "string",   "uint1",
      "uint16",   "uint32",  "uint64",     "uint8",         "variant"};
  return *names;
}

// Reads one file. Errors go to `problems`.
class Reader {
 public:
  Reader(const JsonDocument& document, Problems* problems)
      : document_(document), problems_(*problems) {}

  std::string Why() {
    const Json::Value& why = document_.root[kWhy];
    if (why.isString()) return why.asString();
    Expected(why, "a text, why the ops of the file are on their list");
    return "";
  }

  OpsInfoEntry Entry(const std::string& name, const std::string& why) {
    OpsInfoEntry entry;
    entry.name = name;
    const Json::Value& value = document_.root[name];
    entry.info.place = document_.PlaceOf(value);
    entry.info.why = why;
    if (!value.isObject()) {
      Expected(value, "an object");
      return entry;
    }
    for (const std::string& key : value.getMemberNames()) {
      int index;
      if (key == kPrecisionReduce) {
        ReadColor(value[key], &entry.info.color);
      } else if (ArgumentIndex(key, "input", &index)) {
        ReadArgument(value[key], index, &entry.info.inputs);
      } else if (ArgumentIndex(key, "output", &index)) {
        ReadArgument(value[key], index, &entry.info.outputs);
      } else {
        Judge(value[key], JudgeKey(KeysOf::kEntry, key));
      }
    }
    return entry;
  }

 private:
  // "input12" is argument 12 of the inputs.
  static bool ArgumentIndex(const std::string& key, const char* kind, int* index) {
    absl::string_view rest(key);
    return absl::ConsumePrefix(&rest, kind) && absl::SimpleAtoi(rest, index) && *index >= 0;
  }

  void ReadColor(const Json::Value& reduce, ListColor* color) {
    if (!reduce.isObject()) {
      Expected(reduce, "{\"flag\": \"true\"} or {\"flag\": \"false\"}");
      return;
    }
    for (const std::string& key : reduce.getMemberNames()) {
      if (key == "flag") continue;
      Error(reduce[key],
            absl::StrCat("got key ", Quoted(key), " in ", kPrecisionReduce, ", expected flag"));
    }
    if (!reduce.isMember("flag")) return;
    const Json::Value& flag = reduce["flag"];
    if (flag.isString() && flag.asString() == "true") {
      *color = ListColor::kWhite;
    } else if (flag.isString() && flag.asString() == "false") {
      *color = ListColor::kBlack;
    } else {
      Error(flag, absl::StrCat(
                      "precision_reduce.flag: got ", JsonTypeName(flag),
                      ", expected \"true\" (white) or \"false\" (black); leave it out for gray"));
    }
  }

  void ReadArgument(const Json::Value& argument, int index, std::map<int, FloatDtypes>* arguments) {
    if (!argument.isObject()) {
      Expected(argument, "an object, such as {\"dtype\": \"float16\"}");
      return;
    }
    for (const std::string& key : argument.getMemberNames()) {
      if (key == "dtype") {
        ReadDtypes(argument[key], &(*arguments)[index]);
      } else {
        Judge(argument[key], JudgeKey(KeysOf::kArgument, key));
      }
    }
  }

  void ReadDtypes(const Json::Value& value, FloatDtypes* dtypes) {
    if (!value.isString()) {
      Expected(value, "dtype names separated by commas");
      return;
    }
    std::string error;
    if (!ParseFloatDtypes(value.asString(), dtypes, &error)) Error(value, error);
  }

  void Judge(const Json::Value& value, const KeyVerdict& verdict) {
    if (verdict.is_known) return;
    const Severity severity = verdict.may_matter ? Severity::kError : Severity::kWarning;
    problems_.push_back({severity, "unknown-key", document_.PlaceOf(value), verdict.text});
  }

  void Expected(const Json::Value& value, const std::string& what) {
    Error(value, absl::StrCat("got ", JsonTypeName(value), ", expected ", what));
  }

  void Error(const Json::Value& value, const std::string& text) {
    problems_.push_back({Severity::kError, kStructure, document_.PlaceOf(value), text});
  }

  const JsonDocument& document_;
  Problems& problems_;
};

// Black keeps more in float32 than gray, and gray than white.
int Darkness(ListColor color) {
  return color == ListColor::kBlack ? 2 : color == ListColor::kGray ? 1 : 0;
}

std::string Described(const OpsInfoEntry& entry) {
  return absl::StrCat(Quoted(entry.name), " (", ListColorName(entry.info.color), ", at ",
                      entry.info.place, ")");
}

void Contradict(const std::string& op, const OpsInfoEntry& first, const OpsInfoEntry& second,
                Problems* problems) {
  const bool opposite = Darkness(first.info.color) + Darkness(second.info.color) == 2 &&
                        first.info.color != second.info.color;
  if (first.info.color == second.info.color) return;
  const OpsInfoEntry& darker =
      Darkness(first.info.color) > Darkness(second.info.color) ? first : second;
  const std::string both = absl::StrCat(Described(first), " and ", Described(second),
                                        " both stand for ", op, " in TensorFlow");
  if (opposite) {
    problems->push_back({Severity::kError, "contradiction", second.info.place,
                         absl::StrCat(both, "; it can be on one list only")});
  } else {
    problems->push_back({Severity::kNote, "two-names", second.info.place,
                         absl::StrCat(both, "; ", Quoted(darker.name), " is taken")});
  }
}

const OpsInfoProblem* FirstError(const Problems& problems) {
  for (const OpsInfoProblem& problem : problems) {
    if (problem.severity == Severity::kError) return &problem;
  }
  return nullptr;
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

bool ParseFloatDtypes(const std::string& text, FloatDtypes* dtypes, std::string* error) {
  *dtypes = FloatDtypes();
  for (absl::string_view part : absl::StrSplit(text, ',')) {
    const std::string name(absl::StripAsciiWhitespace(part));
    const auto& known = DtypeNames();
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      *error = absl::StrCat("got dtype ", Quoted(name), ", expected one of ",
                            absl::StrJoin(known, ", "), DidYouMean(name, known));
      return false;
    }
    dtypes->float32 |= name == "float" || name == "float32";
    dtypes->float16 |= name == "float16";
    dtypes->bfloat16 |= name == "bfloat16";
  }
  return true;
}

std::string FloatDtypes::Text() const {
  std::vector<std::string> names;
  if (float16) names.push_back("float16");
  if (bfloat16) names.push_back("bfloat16");
  if (float32) names.push_back("float32");
  return absl::StrJoin(names, ",");
}

Status ReadOpsInfo(const std::string& file, const std::string& text,
                   std::vector<OpsInfoEntry>* entries, Problems* problems) {
  JsonDocument document;
  TF_RETURN_IF_ERROR(ParseJson(file, text, &document));
  Reader reader(document, problems);
  const std::string why = document.root.isMember(kWhy) ? reader.Why() : "";
  for (const std::string& name : document.root.getMemberNames()) {
    if (name != kWhy) entries->push_back(reader.Entry(name, why));
  }
  return Status();
}

void AddEntries(const std::vector<OpsInfoEntry>& entries, const IrNames& ir_names, OpsInfo* ops,
                Problems* problems) {
  std::map<std::string, const OpsInfoEntry*> chosen;
  for (const OpsInfoEntry& entry : entries) {
    for (const std::string& op : TensorFlowOps(ir_names, entry.name)) {
      const OpsInfoEntry*& other = chosen[op];
      if (other == nullptr || entry.name == op) {
        other = &entry;
      } else if (other->name != op) {
        Contradict(op, *other, entry, problems);
        if (Darkness(entry.info.color) >= Darkness(other->info.color)) other = &entry;
      }
    }
  }
  for (const auto& each : chosen) (*ops)[each.first] = each.second->info;
}

void FindUnknownOps(const std::vector<OpsInfoEntry>& entries, const IrNames& ir_names,
                    Problems* problems) {
  for (const OpsInfoEntry& entry : entries) {
    if (IsKnownOp(entry.name, ir_names)) continue;
    problems->push_back(
        {Severity::kWarning, "unknown-op", entry.info.place,
         absl::StrCat(Quoted(entry.name), " is not an op type of TensorFlow or Ascend",
                      GuessOp(entry.name, ir_names).did_you_mean)});
  }
}

Status ParseOpsInfo(const std::string& file, const std::string& text, const IrNames& ir_names,
                    OpsInfo* ops, Problems* warnings) {
  std::vector<OpsInfoEntry> entries;
  Problems problems;
  TF_RETURN_IF_ERROR(ReadOpsInfo(file, text, &entries, &problems));
  AddEntries(entries, ir_names, ops, &problems);
  const OpsInfoProblem* error = FirstError(problems);
  if (error != nullptr) {
    return tensorflow::errors::InvalidArgument(error->place, ": ", error->text);
  }
  if (warnings == nullptr) return Status();
  FindUnknownOps(entries, ir_names, &problems);
  for (const OpsInfoProblem& problem : problems) {
    if (problem.severity == Severity::kWarning) warnings->push_back(problem);
  }
  return Status();
}

}  // namespace npu_precision
