#include "graph_passes/lists/custom_dtypes.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph_passes/graph/dtype_names.h"
#include "graph_passes/graph/quoted.h"
#include "graph_passes/lists/did_you_mean.h"
#include "tensorflow/core/lib/core/errors.h"

namespace npu_precision {
namespace {

using tensorflow::DataType;
using tensorflow::Status;
using Problems = std::vector<CustomDtypesProblem>;

constexpr char kOpType[] = "OpType";
constexpr char kFormat[] =
    "NAME::InputDtype:DTYPE,...,OutputDtype:DTYPE,... or OpType::TYPE:InputDtype:...";
constexpr char kByteOrderMark[] = "\xef\xbb\xbf";
constexpr char kComment = '#';  // No name of a node, op type or dtype has one.

const std::vector<std::string>& Keys() {
  static const auto* keys = new std::vector<std::string>{"InputDtype", "OutputDtype"};
  return *keys;
}

// The dtypes that both Ascend's ops and TensorFlow have, by their names in both.
const std::vector<std::string>& DtypeNames() {
  static const auto* names = [] {
    auto* all = new std::vector<std::string>();
    for (DataType dtype :
         {tensorflow::DT_HALF, tensorflow::DT_BFLOAT16, tensorflow::DT_FLOAT, tensorflow::DT_DOUBLE,
          tensorflow::DT_INT8, tensorflow::DT_INT16, tensorflow::DT_INT32, tensorflow::DT_INT64,
          tensorflow::DT_UINT8, tensorflow::DT_UINT16, tensorflow::DT_UINT32, tensorflow::DT_UINT64,
          tensorflow::DT_BOOL}) {
      all->push_back(DtypeName(dtype));
    }
    return all;
  }();
  return *names;
}

// The dtype name that a misspelling stands for, or "".
std::string DtypeMeant(const std::string& name) {
  static const auto* meant = new std::map<std::string, std::string>{
      {"fp16", "float16"},  {"half", "float16"},   {"fp32", "float32"}, {"float", "float32"},
      {"bf16", "bfloat16"}, {"double", "float64"}, {"fp64", "float64"}, {"int", "int32"}};
  const std::string lower = absl::AsciiStrToLower(name);
  const auto found = meant->find(lower);
  if (found != meant->end()) return found->second;
  static const auto* names = new KnownNames(DtypeNames());
  const std::vector<std::string> near = names->OneLetterFrom(name);
  return near.size() == 1 ? near.front() : "";
}

DataType DtypeOf(const std::string& name) {
  for (int number = tensorflow::DataType_MIN; number <= tensorflow::DataType_MAX; ++number) {
    const auto dtype = static_cast<DataType>(number);
    if (tensorflow::DataType_IsValid(number) && DtypeName(dtype) == name) return dtype;
  }
  return tensorflow::DT_INVALID;
}

// Part of the text of the file, without spaces around it.
struct Span {
  size_t begin, end;
};

class Reader {
 public:
  Reader(const std::string& file, const std::string& text, const IrNames& ir_names,
         std::vector<CustomDtypes>* lines, Problems* problems)
      : file_(file), text_(text), ir_names_(ir_names), lines_(*lines), problems_(*problems) {}

  void Run() {
    size_t begin = absl::StartsWith(text_, kByteOrderMark) ? sizeof(kByteOrderMark) - 1 : 0;
    while (begin < text_.size()) {
      ++line_;
      line_begin_ = begin;
      const size_t end = std::min(text_.find('\n', begin), text_.size());
      const Span whole = Trimmed({begin, std::min(text_.find(kComment, begin), end)});
      begin = std::min(end + 1, text_.size());
      if (whole.begin == whole.end) continue;
      CustomDtypes line;
      line.begin = line_begin_;
      line.end = begin;
      line.place = PlaceOf(whole);
      if (ReadLine(whole, &line)) lines_.push_back(std::move(line));
    }
  }

 private:
  Span Trimmed(Span span) const {
    while (span.begin < span.end && absl::ascii_isspace(text_[span.begin])) ++span.begin;
    while (span.end > span.begin && absl::ascii_isspace(text_[span.end - 1])) --span.end;
    return span;
  }

  std::string TextOf(const Span& span) const {
    return text_.substr(span.begin, span.end - span.begin);
  }

  std::string PlaceOf(const Span& span) const {
    return absl::StrCat(file_, ":", line_, ":", span.begin - line_begin_ + 1);
  }

  bool Fail(const Span& span, const std::string& text) {
    problems_.push_back({PlaceOf(span), text, false, "", span.begin, span.end});
    return false;
  }

  bool FailWithFix(const Span& span, const std::string& text, const std::string& replacement) {
    problems_.push_back({PlaceOf(span), text, true, replacement, span.begin, span.end});
    return false;
  }

  bool ReadLine(const Span& whole, CustomDtypes* line) {
    const std::string text = TextOf(whole);
    const size_t colons = text.find("::");
    if (colons == std::string::npos) return FailWithoutSubject(whole, text);
    const Span first = Trimmed({whole.begin, whole.begin + colons});
    Span rest = Trimmed({whole.begin + colons + 2, whole.end});
    Span subject = first;
    if (TextOf(first) == kOpType) {
      const size_t colon = std::min(text_.find(':', rest.begin), rest.end);
      subject = Trimmed({rest.begin, colon});
      rest = Trimmed({std::min(colon + 1, rest.end), rest.end});
    }
    line->subject = TextOf(subject);
    line->subject_begin = subject.begin;
    line->subject_end = subject.end;
    line->names_op = TextOf(first) == kOpType;
    if (line->subject.empty()) {
      return Fail(subject, absl::StrCat("got no ", line->names_op ? "op type" : "name of a node",
                                        ", expected ", kFormat));
    }
    if (line->names_op) line->ops = TensorFlowOps(ir_names_, line->subject);
    return ReadDtypes(rest, line);
  }

  // "conv:InputDtype:float16" lacks a colon.
  bool FailWithoutSubject(const Span& whole, const std::string& text) {
    const std::string what = absl::StrCat("got ", Quoted(text), ", expected ", kFormat);
    for (const std::string& key : Keys()) {
      const size_t at = text.find(absl::StrCat(":", key, ":"));
      if (at == 0 || at == std::string::npos) continue;
      const Span colon = {whole.begin + at, whole.begin + at + 1};
      return FailWithFix(colon, what, "::");
    }
    return Fail(whole, what);
  }

  // "InputDtype:float16,float32,OutputDtype:float16".
  bool ReadDtypes(const Span& list, CustomDtypes* line) {
    std::vector<DataType>* dtypes = nullptr;
    bool is_right = true, has_inputs = false, has_outputs = false;
    if (list.begin == list.end) {
      return Fail(
          list, absl::StrCat("got no dtypes for ", Quoted(line->subject), ", expected ", kFormat));
    }
    for (size_t begin = list.begin; begin <= list.end;) {
      const size_t end = std::min(text_.find(',', begin), list.end);
      Span item = Trimmed({begin, end});
      begin = end + 1;
      const size_t colon = std::min(text_.find(':', item.begin), item.end);
      if (colon != item.end) {
        const Span key = Trimmed({item.begin, colon});
        item = Trimmed({colon + 1, item.end});
        dtypes = ListOf(key, line, &has_inputs, &has_outputs);
        is_right &= dtypes != nullptr;
        if (dtypes == nullptr) dtypes = &ignored_;
      } else if (dtypes == nullptr) {
        is_right = Fail(item, absl::StrCat("got ", Quoted(TextOf(item)),
                                           ", expected InputDtype: or OutputDtype:"));
        dtypes = &ignored_;
      }
      is_right &= ReadDtype(item, dtypes);
    }
    return is_right;
  }

  // Returns the list that a key begins, or nullptr if there is none; a problem then says why.
  std::vector<DataType>* ListOf(const Span& key, CustomDtypes* line, bool* has_inputs,
                                bool* has_outputs) {
    const std::string name = TextOf(key);
    const bool is_input = name == Keys()[0];
    if (!is_input && name != Keys()[1]) {
      const std::string text = absl::StrCat("got ", Quoted(name), ", expected one of ",
                                            absl::StrJoin(Keys(), ", "), DidYouMean(name, Keys()));
      static const auto* keys = new KnownNames(Keys());
      const std::string* nearest = keys->Nearest(name);
      nearest == nullptr ? Fail(key, text) : FailWithFix(key, text, *nearest);
      return nullptr;
    }
    bool* has = is_input ? has_inputs : has_outputs;
    if (*has) {
      Fail(key, absl::StrCat("got ", name, " twice for ", Quoted(line->subject)));
      return nullptr;
    }
    *has = true;
    return is_input ? &line->inputs : &line->outputs;
  }

  bool ReadDtype(const Span& item, std::vector<DataType>* dtypes) {
    const std::string name = TextOf(item);
    const auto& known = DtypeNames();
    if (std::find(known.begin(), known.end(), name) != known.end()) {
      dtypes->push_back(DtypeOf(name));
      return true;
    }
    const std::string meant = DtypeMeant(name);
    const std::string text =
        absl::StrCat("got ", name.empty() ? "no dtype" : absl::StrCat("dtype ", Quoted(name)),
                     ", expected one of ", absl::StrJoin(known, ", "),
                     meant.empty() ? "" : absl::StrCat("; did you mean ", Quoted(meant), "?"));
    return meant.empty() ? Fail(item, text) : FailWithFix(item, text, meant);
  }

  const std::string& file_;
  const std::string& text_;
  const IrNames& ir_names_;
  std::vector<CustomDtypes>& lines_;
  Problems& problems_;
  int line_ = 0;
  size_t line_begin_ = 0;
  std::vector<DataType> ignored_;
};

// Two lists agree if they have the same dtype in each place where both have one.
bool Agree(const std::vector<DataType>& a, const std::vector<DataType>& b) {
  const size_t both = std::min(a.size(), b.size());
  return std::equal(a.begin(), a.begin() + both, b.begin());
}

// Keeps the longer lists of two lines that agree.
void Merge(const CustomDtypes& other, CustomDtypes* line) {
  if (other.inputs.size() > line->inputs.size()) line->inputs = other.inputs;
  if (other.outputs.size() > line->outputs.size()) line->outputs = other.outputs;
}

void FindContradictions(const std::string& file, const std::vector<CustomDtypes>& lines,
                        Problems* problems) {
  std::map<std::pair<bool, std::string>, CustomDtypes> merged;
  for (const CustomDtypes& line : lines) {
    const bool is_op = line.names_op;
    for (const std::string& name : is_op ? line.ops : std::vector<std::string>{line.subject}) {
      CustomDtypes& first = merged.emplace(std::make_pair(is_op, name), line).first->second;
      if (Agree(first.inputs, line.inputs) && Agree(first.outputs, line.outputs)) {
        Merge(line, &first);
        continue;
      }
      problems->push_back({file, absl::StrCat(Quoted(line.subject), " at ", line.place, " and ",
                                              Quoted(first.subject), " at ", first.place, " give ",
                                              is_op ? "the op type " : "the node ", Quoted(name),
                                              " different dtypes; keep one of the two")});
      break;
    }
  }
}

}  // namespace

void ReadCustomDtypes(const std::string& file, const std::string& text, const IrNames& ir_names,
                      std::vector<CustomDtypes>* lines, Problems* problems) {
  Reader(file, text, ir_names, lines, problems).Run();
  if (problems->empty()) FindContradictions(file, *lines, problems);
}

Status ParseCustomDtypes(const std::string& file, const std::string& text, const IrNames& ir_names,
                         std::vector<CustomDtypes>* lines) {
  Problems problems;
  ReadCustomDtypes(file, text, ir_names, lines, &problems);
  if (problems.empty()) return Status();
  return tensorflow::errors::InvalidArgument(problems.front().place, ": ", problems.front().text);
}

std::vector<MixlistEntry> OpTypeEntries(const std::vector<CustomDtypes>& lines) {
  std::vector<MixlistEntry> entries;
  for (const CustomDtypes& line : lines) {
    if (!line.names_op) continue;
    MixlistEntry entry;
    entry.text = line.subject;
    entry.place = line.place;
    entry.ops = line.ops;
    entry.begin = line.subject_begin;
    entry.end = line.subject_end;
    entries.push_back(std::move(entry));
  }
  return entries;
}

CustomDtypesFile::CustomDtypesFile(std::vector<CustomDtypes> lines) : lines_(std::move(lines)) {
  for (const CustomDtypes& line : lines_) {
    if (!line.names_op) Add(line.subject, line, &of_name_);
    for (const std::string& op : line.ops) Add(op, line, &of_op_);
  }
}

void CustomDtypesFile::Add(const std::string& key, const CustomDtypes& line, Index* index) {
  const auto known = index->emplace(key, merged_.size());
  if (known.second) {
    merged_.push_back(line);
  } else {
    Merge(line, &merged_[known.first->second]);
  }
}

const CustomDtypes* CustomDtypesFile::Find(const Index& index, const std::string& key) const {
  const auto found = index.find(key);
  return found == index.end() ? nullptr : &merged_[found->second];
}

const CustomDtypes* CustomDtypesFile::OfName(const std::string& name) const {
  return Find(of_name_, name);
}

const CustomDtypes* CustomDtypesFile::OfOp(const std::string& op) const { return Find(of_op_, op); }

}  // namespace npu_precision
