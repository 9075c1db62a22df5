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
                                        {"one_turn", Unless::kOneTurn},
                                        {"beyond_one", Unless::kBeyondOne},
                                        {"yields_no_integer", Unless::kYieldsNoInteger},
                                        {"one_selects", Unless::kOneSelects}};
  return *conditions;
}

Status ParseInput(const JsonDocument& document, const std::string& name, const Json::Value& value,
                  MagnifiedInput* input) {
  absl::string_view number = name;
  if (!absl::ConsumePrefix(&number, "input") || !absl::SimpleAtoi(number, &input->index)) {
    return InvalidArgument(document.PlaceOf(value), ": got key ", Quoted(name),
                           ", expected one like \"input0\"");
  }
  bool is_known = value.isObject();
  for (const std::string& key : is_known ? value.getMemberNames() : std::vector<std::string>()) {
    const Json::Value& given = value[key];
    if (key == "terms" && given.isInt()) {
      input->terms = given.asInt();
      continue;
    }
    if (key == "whole" && given.isBool()) {
      input->whole = given.asBool();
      continue;
    }
    const auto known = key == "unless" && given.isString() ? Conditions().find(given.asString())
                                                           : Conditions().end();
    is_known &= known != Conditions().end();
    if (is_known) input->unless = known->second;
  }
  if (is_known) return Status();
  std::vector<std::string> names;
  for (const auto& condition : Conditions()) names.push_back(condition.first);
  return InvalidArgument(
      document.PlaceOf(value),
      ": expected an object with any of {\"unless\": CONDITION, \"terms\": NUMBER, "
      "\"whole\": BOOL}, with a CONDITION of ",
      absl::StrJoin(names, ", "));
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
