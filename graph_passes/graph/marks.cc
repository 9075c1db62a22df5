#include "graph_passes/graph/marks.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "tensorflow/core/framework/attr_value.pb.h"

namespace npu_precision {
namespace {

// Strings rather than char pointers, so that a lookup does not construct one.
const std::string& kKeepDtype = *new std::string("_keep_dtype");
const std::string& kAutocast = *new std::string("_npu_precision_autocast");
const std::string& kList = *new std::string("_npu_precision_list");
const std::string& kFused = *new std::string("_npu_precision_fused");
const std::string& kLossScale = *new std::string("_npu_precision_loss_scale");
const std::string& kOverflowCheck = *new std::string("_npu_precision_overflow_check");
const std::string& kPreserved = *new std::string("_npu_precision_preserved");
const std::string& kNamed = *new std::string("_npu_precision_named");
const std::string& kLowerIo = *new std::string("_npu_precision_lower_io");
const std::string& kBodyRole = *new std::string("_npu_precision_body");
const std::string& kErrorPaths = *new std::string("_npu_precision_error_paths");
const std::string& kReadByCondition = *new std::string("_npu_precision_condition");
const std::string& kKeptArgument = *new std::string("_npu_precision_kept_argument");
const std::string& kKeptInPlace = *new std::string("_npu_precision_kept_in_place");
const std::string& kOrigin = *new std::string("_npu_precision_origin");
const std::string& kCompiled = *new std::string("_npu_precision_compiled");
const std::string& kCaller = *new std::string("_npu_precision_caller");
const std::string& kInserted = *new std::string("_npu_precision_cast");
const std::string& kRounding = *new std::string("_npu_precision_rounding");
const std::string& kInFloat32 = *new std::string("_npu_precision_in_float32");
const std::string& kDecision = *new std::string("_npu_precision");

constexpr const char* kColocations[] = {"_class", "_npu_precision_class"};
constexpr char kPlace[] = "loc:@";
// In the mark of kInFloat32, after the names of groups that would be bfloat16 instead of float16.
constexpr char kInBfloat16[] = "=bfloat16";

const tensorflow::AttrValue* Find(const tensorflow::NodeDef& node, const std::string& name) {
  const auto found = node.attr().find(name);
  return found == node.attr().end() ? nullptr : &found->second;
}

}  // namespace

std::map<std::string, std::string> MarkNames() {
  return {{"keep_dtype", kKeepDtype},
          {"autocast", kAutocast},
          {"list", kList},
          {"loss_scale", kLossScale},
          {"overflow_check", kOverflowCheck},
          {"preserved", kPreserved},
          {"named", kNamed},
          {"lower_io", kLowerIo},
          {"body_role", kBodyRole},
          {"error_paths", kErrorPaths},
          {"read_by_condition", kReadByCondition},
          {"kept_in_place", kKeptInPlace},
          {"origin", kOrigin},
          {"compiled", kCompiled},
          {"caller", kCaller},
          {"inserted", kInserted},
          {"colocation", kColocations[1]}};
}

bool HasKeepDtypeMark(const tensorflow::NodeDef& node) {
  const tensorflow::AttrValue* value = Find(node, kKeepDtype);
  return value != nullptr && (value->i() != 0 || value->b());
}

void MarkKeepDtype(tensorflow::NodeDef* node) { (*node->mutable_attr())[kKeepDtype].set_i(1); }

tensorflow::DataType AutocastMark(const tensorflow::NodeDef& node) {
  const tensorflow::AttrValue* value = Find(node, kAutocast);
  return value == nullptr ? tensorflow::DT_INVALID : value->type();
}

std::string ListMark(const tensorflow::NodeDef& node) {
  const tensorflow::AttrValue* value = Find(node, kList);
  return value == nullptr ? "" : value->s();
}

void InheritMarks(const tensorflow::NodeDef& from, tensorflow::NodeDef* node) {
  for (const std::string* name : {&kAutocast, &kList}) {
    const tensorflow::AttrValue* value = Find(from, *name);
    if (value != nullptr && Find(*node, *name) == nullptr) (*node->mutable_attr())[*name] = *value;
  }
}

bool HasInheritedMark(const tensorflow::NodeDef& node) {
  return Find(node, kAutocast) != nullptr || Find(node, kList) != nullptr;
}

void MarkFused(tensorflow::NodeDef* node) { (*node->mutable_attr())[kFused].set_b(true); }
bool HasFusedMark(const tensorflow::NodeDef& node) { return Find(node, kFused) != nullptr; }

bool HasLossScaleMark(const tensorflow::NodeDef& node) { return Find(node, kLossScale) != nullptr; }

bool HasOverflowCheckMark(const tensorflow::NodeDef& node) {
  return Find(node, kOverflowCheck) != nullptr;
}

void ForgetOverflowCheckMark(tensorflow::NodeDef* node) {
  node->mutable_attr()->erase(kOverflowCheck);
}

bool HasPreservedMark(const tensorflow::NodeDef& node) { return Find(node, kPreserved) != nullptr; }

bool HasNameMark(const tensorflow::NodeDef& node) { return Find(node, kNamed) != nullptr; }

bool HasLowerIoMark(const tensorflow::NodeDef& node) { return Find(node, kLowerIo) != nullptr; }

const char* BodyRoleName(BodyRole role) {
  switch (role) {
    case BodyRole::kIterated:
      return "iterated";
    case BodyRole::kLoopBody:
      return "loop_body";
    case BodyRole::kBranch:
      return "branch";
    case BodyRole::kCalled:
      break;
  }
  return "called";
}

BodyRole BodyRoleMark(const tensorflow::NodeDef& node) {
  const tensorflow::AttrValue* value = Find(node, kBodyRole);
  for (const BodyRole role : {BodyRole::kIterated, BodyRole::kLoopBody, BodyRole::kBranch}) {
    if (value != nullptr && value->s() == BodyRoleName(role)) return role;
  }
  return BodyRole::kCalled;
}

void MarkBodyRole(BodyRole role, tensorflow::NodeDef* node) {
  (*node->mutable_attr())[kBodyRole].set_s(BodyRoleName(role));
}

bool ReadErrorPaths(const tensorflow::NodeDef& node, std::vector<std::pair<int, int>>* paths) {
  const tensorflow::AttrValue* value = Find(node, kErrorPaths);
  if (value == nullptr) return false;
  for (int i = 0; i + 1 < value->list().i_size(); i += 2) {
    paths->emplace_back(static_cast<int>(value->list().i(i)),
                        static_cast<int>(value->list().i(i + 1)));
  }
  return true;
}

void MarkErrorPaths(const std::vector<std::pair<int, int>>& paths, tensorflow::NodeDef* node) {
  auto* list = (*node->mutable_attr())[kErrorPaths].mutable_list();  // An empty list is a fact too.
  for (const auto& path : paths) {
    list->add_i(path.first);
    list->add_i(path.second);
  }
}

std::vector<ReadByCondition> ReadsByCondition(const tensorflow::NodeDef& node) {
  const tensorflow::AttrValue* value = Find(node, kReadByCondition);
  std::vector<ReadByCondition> reads;
  for (int i = 0; value != nullptr && i + 1 < value->list().i_size(); i += 2) {
    reads.push_back(
        {static_cast<int>(value->list().i(i)), static_cast<Reading>(value->list().i(i + 1))});
  }
  return reads;
}

void MarkReadsByCondition(const std::vector<ReadByCondition>& reads, tensorflow::NodeDef* node) {
  if (reads.empty()) return;
  auto* list = (*node->mutable_attr())[kReadByCondition].mutable_list();
  for (const ReadByCondition& read : reads) {
    list->add_i(read.place);
    list->add_i(static_cast<int>(read.as));
  }
}

bool HasKeptArgumentMark(const tensorflow::NodeDef& node) {
  return Find(node, kKeptArgument) != nullptr;
}

void MarkKeptArgument(tensorflow::NodeDef* node) {
  (*node->mutable_attr())[kKeptArgument].set_b(true);
}

bool HasKeptInPlaceMark(const tensorflow::NodeDef& node) {
  return Find(node, kKeptInPlace) != nullptr;
}

void MarkKeptInPlace(tensorflow::NodeDef* node) {
  (*node->mutable_attr())[kKeptInPlace].set_b(true);
}

void MarkOrigin(const Origin& origin, tensorflow::NodeDef* node) {
  tensorflow::AttrValue::ListValue* list = (*node->mutable_attr())[kOrigin].mutable_list();
  list->Clear();
  list->add_s(origin.function);
  list->add_s(origin.node);
}

bool ReadOrigin(const tensorflow::NodeDef& node, Origin* origin) {
  const tensorflow::AttrValue* value = Find(node, kOrigin);
  if (value == nullptr || value->list().s_size() != 2) return false;
  *origin = {std::string(value->list().s(0)), std::string(value->list().s(1))};
  return true;
}

void ForgetBodyMarks(tensorflow::NodeDef* node) {
  for (const std::string& mark :
       {kBodyRole, kErrorPaths, kReadByCondition, kKeptArgument, kKeptInPlace}) {
    node->mutable_attr()->erase(mark);
  }
}

bool HasCompiledMark(const tensorflow::NodeDef& node) { return Find(node, kCompiled) != nullptr; }

bool HasCallerMark(const tensorflow::NodeDef& node) { return Find(node, kCaller) != nullptr; }

std::vector<std::string> ColocatedWith(const tensorflow::NodeDef& node) {
  std::vector<std::string> names;
  for (const char* attr : kColocations) {
    const tensorflow::AttrValue* value = Find(node, attr);
    if (value == nullptr) continue;
    for (const std::string& place : value->list().s()) {
      names.emplace_back(absl::StripPrefix(place, kPlace));
    }
  }
  return names;
}

void ColocateWithRenamed(const std::unordered_map<std::string, std::string>& new_names,
                         tensorflow::NodeDef* node) {
  for (const char* attr : kColocations) {
    if (Find(*node, attr) == nullptr) continue;
    for (std::string& place : *(*node->mutable_attr())[attr].mutable_list()->mutable_s()) {
      const auto found = new_names.find(std::string(absl::StripPrefix(place, kPlace)));
      if (found != new_names.end()) place = absl::StrCat(kPlace, found->second);
    }
  }
}

void MarkInserted(tensorflow::NodeDef* node) {
  node->mutable_attr()->erase(kDecision);  // a copied node may have one
  (*node->mutable_attr())[kInserted].set_b(true);
}

bool ForgetMarks(tensorflow::NodeDef* node) {
  const size_t had_decision = node->mutable_attr()->erase(kDecision);
  return node->mutable_attr()->erase(kInserted) + had_decision > 0;
}

// Passes look through an inserted node to its first input. This is only correct for these ops,
// whatever the marks say.
bool IsOpOfInserted(const std::string& op) {
  return op == "Cast" || op == "Enter" || op == "Switch" || op == "Identity" || op == "NoOp";
}

bool IsInserted(const tensorflow::NodeDef& node) {
  return IsOpOfInserted(node.op()) && Find(node, kInserted) != nullptr;
}

bool IsInsertedCast(const tensorflow::NodeDef& node) {
  return node.op() == "Cast" && IsInserted(node);
}

bool IsTransparent(const tensorflow::NodeDef& node) {
  if (!IsInserted(node) || node.op() == "NoOp") return false;
  return node.op() != "Cast" || node.input_size() == 1;
}

void UnmarkInserted(const std::set<std::string>& fed, tensorflow::GraphDef* graph) {
  for (tensorflow::NodeDef& node : *graph->mutable_node()) {
    if (fed.count(node.name()) != 0) node.mutable_attr()->erase(kInserted);
  }
}

void MarkDecision(const DecisionMark& mark, tensorflow::NodeDef* node) {
  DecisionMark earlier;
  ReadDecisionMark(*node, &earlier);
  std::map<std::string, std::string> before = mark.before;
  before.insert(earlier.before.begin(), earlier.before.end());
  (*node->mutable_attr())[kDecision].set_s(
      absl::StrJoin({mark.decision, mark.list, mark.reason,
                     absl::StrJoin(before, ",", absl::PairFormatter("=")), mark.cause},
                    " "));
}

void MarkRounding(tensorflow::NodeDef* node) {
  MarkInserted(node);
  (*node->mutable_attr())[kRounding].set_b(true);
}

bool IsRounding(const tensorflow::NodeDef& node) {
  return IsInsertedCast(node) && Find(node, kRounding) != nullptr;
}

void MarkInFloat32(const std::map<std::string, tensorflow::DataType>& groups,
                   tensorflow::NodeDef* node) {
  std::vector<std::string> words;
  for (const auto& group : groups) {
    words.push_back(group.second == tensorflow::DT_HALF ? group.first
                                                        : absl::StrCat(group.first, kInBfloat16));
  }
  (*node->mutable_attr())[kInFloat32].set_s(absl::StrJoin(words, ","));
}

std::map<std::string, tensorflow::DataType> GroupsInFloat32(const tensorflow::NodeDef& node) {
  const tensorflow::AttrValue* value = Find(node, kInFloat32);
  std::map<std::string, tensorflow::DataType> groups;
  if (value == nullptr) return groups;
  for (absl::string_view name : absl::StrSplit(value->s(), ',', absl::SkipEmpty())) {
    const bool in_bfloat16 = absl::ConsumeSuffix(&name, kInBfloat16);
    groups[std::string(name)] = in_bfloat16 ? tensorflow::DT_BFLOAT16 : tensorflow::DT_HALF;
  }
  return groups;
}

void ForgetRounding(tensorflow::NodeDef* node) {
  node->mutable_attr()->erase(kRounding);
  node->mutable_attr()->erase(kInFloat32);
}

bool ReadDecisionMark(const tensorflow::NodeDef& node, DecisionMark* mark) {
  const tensorflow::AttrValue* value = Find(node, kDecision);
  if (value == nullptr) return false;
  const std::vector<std::string> words = absl::StrSplit(value->s(), absl::MaxSplits(' ', 4));
  if (words.size() != 5) return false;
  *mark = {words[0], words[1], words[2], {}, words[4]};
  for (absl::string_view entry : absl::StrSplit(words[3], ',', absl::SkipEmpty())) {
    const std::pair<std::string, std::string> group =
        absl::StrSplit(entry, absl::MaxSplits('=', 1));
    mark->before.insert(group);
  }
  return true;
}

}  // namespace npu_precision
