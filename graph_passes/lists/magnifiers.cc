#include "graph_passes/lists/magnifiers.h"

#include <map>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "graph_passes/graph/quoted.h"
#include "graph_passes/lists/json_text.h"
#include "tensorflow/core/lib/core/errors.h"

namespace npu_precision {
namespace {

using tensorflow::Status;
using tensorflow::errors::InvalidArgument;

const std::map<std::string, Unless>& Conditions() {
  static const auto* conditions =
      new std::map<std::string, Unless>{{"away_from_zero", Unless::kAwayFromZero},
                                        {"divisor_away_from_zero", Unless::kDivisorAwayFromZero},
                                        {"small_power", Unless::kSmallPower},
                                        {"one_turn", Unless::kOneTurn}};
  return *conditions;
}

Status ParseInput(const JsonDocument& document, const std::string& name, const Json::Value& value,
                  MagnifiedInput* input) {
  absl::string_view number = name;
  if (!absl::ConsumePrefix(&number, "input") || !absl::SimpleAtoi(number, &input->index)) {
    return InvalidArgument(document.PlaceOf(value), ": got key ", Quoted(name),
                           ", expected one like \"input0\"");
  }
  input->unless = Unless::kNever;
  if (value == Json::Value(Json::objectValue)) return Status();
  const bool is_condition = value.isObject() && value.size() == 1 && value["unless"].isString();
  const auto known =
      is_condition ? Conditions().find(value["unless"].asString()) : Conditions().end();
  if (known == Conditions().end()) {
    std::vector<std::string> names;
    for (const auto& condition : Conditions()) names.push_back(condition.first);
    return InvalidArgument(document.PlaceOf(value),
                           ": expected {} or {\"unless\": CONDITION}, with ", "a CONDITION of ",
                           absl::StrJoin(names, ", "));
  }
  input->unless = known->second;
  return Status();
}

}  // namespace

Status ParseMagnifiers(const std::string& file, const std::string& text, Magnifiers* magnifiers) {
  JsonDocument document;
  TF_RETURN_IF_ERROR(ParseJson(file, text, &document));
  const Json::Value& root = document.root;
  for (const std::string& op : root.getMemberNames()) {
    if (!root[op].isObject()) {
      return InvalidArgument(document.PlaceOf(root[op]), ": got ", JsonTypeName(root[op]),
                             ", expected an object");
    }
    for (const std::string& name : root[op].getMemberNames()) {
      MagnifiedInput input;
      TF_RETURN_IF_ERROR(ParseInput(document, name, root[op][name], &input));
      (*magnifiers)[op].push_back(input);
    }
  }
  return Status();
}

}  // namespace npu_precision
