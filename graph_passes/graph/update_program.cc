#include "graph_passes/graph/update_program.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "tensorflow/core/lib/core/errors.h"

namespace npu_precision {
namespace {

struct KindRow {
  UpdateKind kind;
  const char* name;
  int numbers;
  bool reads_first, reads_second;
};

constexpr KindRow kKinds[] = {
    {UpdateKind::kVariable, "variable", 1, false, false},
    {UpdateKind::kTensor, "tensor", 1, false, false},
    {UpdateKind::kScalar, "scalar", 1, false, false},
    {UpdateKind::kOne, "one", 0, false, false},
    {UpdateKind::kAdd, "add", 2, true, true},
    {UpdateKind::kSub, "sub", 2, true, true},
    {UpdateKind::kMul, "mul", 2, true, true},
    {UpdateKind::kDiv, "div", 2, true, true},
    {UpdateKind::kSquare, "square", 1, true, false},
    {UpdateKind::kSqrt, "sqrt", 1, true, false},
    {UpdateKind::kRsqrt, "rsqrt", 1, true, false},
    {UpdateKind::kNeg, "neg", 1, true, false},
    {UpdateKind::kStore, "store", 2, false, true},
};

// The rows are in the order of the kinds.
const KindRow& RowOf(UpdateKind kind) { return kKinds[static_cast<int>(kind)]; }

class Parser {
 public:
  Parser(int variables, int tensors, int scalars, UpdateProgram* program)
      : variables_(variables), tensors_(tensors), scalars_(scalars), program_(*program) {}

  // Appends a step. Returns false if the text is none.
  bool Add(const std::string& text) {
    const std::vector<std::string> parts = absl::StrSplit(text, ':');
    const auto* row = std::find_if(std::begin(kKinds), std::end(kKinds),
                                   [&parts](const KindRow& each) { return parts[0] == each.name; });
    if (row == std::end(kKinds) || static_cast<int>(parts.size()) != row->numbers + 1) return false;
    UpdateStep step;
    step.kind = row->kind;
    if (row->numbers > 0 && !absl::SimpleAtoi(parts[1], &step.a)) return false;
    if (row->numbers > 1 && !absl::SimpleAtoi(parts[2], &step.b)) return false;
    const bool fits = (row->reads_first ? IsStep(step.a) : IsBelow(step.a, Inputs(step.kind))) &&
                      (!row->reads_second || IsStep(step.b));
    const bool is_late = !program_.empty() && program_.back().kind == UpdateKind::kStore &&
                         step.kind != UpdateKind::kStore;
    if (!fits || is_late) return false;
    program_.push_back(step);
    return true;
  }

 private:
  static bool IsBelow(int number, int count) { return number >= 0 && number < count; }
  bool IsStep(int number) const {
    return IsBelow(number, static_cast<int>(program_.size())) &&
           program_[number].kind != UpdateKind::kStore;
  }
  int Inputs(UpdateKind kind) const {
    if (kind == UpdateKind::kOne) return 1;  // it has no number, which counts as 0
    if (kind == UpdateKind::kTensor) return tensors_;
    return kind == UpdateKind::kScalar ? scalars_ : variables_;
  }

  const int variables_, tensors_, scalars_;
  UpdateProgram& program_;
};

}  // namespace

int NumbersOf(UpdateKind kind) { return RowOf(kind).numbers; }
bool ReadsFirst(UpdateKind kind) { return RowOf(kind).reads_first; }
bool ReadsSecond(UpdateKind kind) { return RowOf(kind).reads_second; }

std::string UpdateText(const UpdateProgram& program) {
  std::vector<std::string> steps;
  for (const UpdateStep& step : program) {
    std::string text = RowOf(step.kind).name;
    if (NumbersOf(step.kind) > 0) absl::StrAppend(&text, ":", step.a);
    if (NumbersOf(step.kind) > 1) absl::StrAppend(&text, ":", step.b);
    steps.push_back(std::move(text));
  }
  return absl::StrJoin(steps, " ");
}

tensorflow::Status ParseUpdate(const std::string& text, int variables, int tensors, int scalars,
                               UpdateProgram* program) {
  program->clear();
  Parser parser(variables, tensors, scalars, program);
  for (const std::string& step : std::vector<std::string>(absl::StrSplit(text, ' '))) {
    if (!parser.Add(step)) {
      return tensorflow::errors::InvalidArgument(
          "program: step ", program->size(), " is '", step, "', which is none of an update of ",
          variables, " variables, ", tensors, " tensors and ", scalars, " scalars");
    }
  }
  return tensorflow::Status();
}

}  // namespace npu_precision
