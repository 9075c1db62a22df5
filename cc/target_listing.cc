#include "cc/target_listing.h"

#include <map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cc/targets.h"
#include "graph_passes/graph/registered_ops.h"
#include "graph_passes/lists/ops_info_keys.h"

namespace npu_precision {
namespace {

// The names of Ascend's ops that TensorFlow has too. Ops that it lacks keep their own names.
IrNames NamesWithCounterparts() {
  IrNames names;
  for (const auto& name : BuiltInIrNames()) {
    if (!name.second.empty()) names.insert(name);
  }
  return names;
}

// Ascend's other names for each op type of TensorFlow.
std::map<std::string, std::vector<std::string>> NamesByOp(const IrNames& names) {
  std::map<std::string, std::vector<std::string>> by_op;
  for (const auto& name : names) {
    for (const std::string& op : name.second) {
      if (op != name.first) by_op[op].push_back(name.first);
    }
  }
  return by_op;
}

Json::Value EntryJson(const OpInfo& info) {
  Json::Value entry(Json::objectValue);
  for (const auto& input : info.inputs) {
    entry[absl::StrCat("input", input.first)]["dtype"] = input.second.Text();
  }
  for (const auto& output : info.outputs) {
    entry[absl::StrCat("output", output.first)]["dtype"] = output.second.Text();
  }
  if (info.color == ListColor::kWhite) entry[kPrecisionReduce]["flag"] = "true";
  if (info.color == ListColor::kBlack) entry[kPrecisionReduce]["flag"] = "false";
  return entry;
}

}  // namespace

Json::Value ListingJson(const std::string& target) {
  const IrNames names = NamesWithCounterparts();
  const auto by_op = NamesByOp(names);
  const TargetFacts& facts = FactsOf(target);
  Json::Value root(Json::objectValue);
  root["target"] = target;
  root["dtype"] = facts.computes.Text();
  root["lists_of"] = facts.lists_of;
  for (const auto& folder : BuiltInOpsInfo(target, names)) {
    Json::Value& ops = root["folders"][folder.first];
    ops = Json::Value(Json::objectValue);
    for (const auto& op : folder.second) {
      Json::Value& row = ops[op.first];
      row["list"] = ListColorName(op.second.color);
      row["tensorflow"] = RegisteredOp(op.first) != nullptr;
      row["place"] = op.second.place;
      row["why"] = op.second.why;
      row["entry"] = EntryJson(op.second);
      row["ascend"] = Json::Value(Json::arrayValue);
      const auto ascends = by_op.find(op.first);
      if (ascends == by_op.end()) continue;
      for (const std::string& name : ascends->second) row["ascend"].append(name);
    }
  }
  return root;
}

}  // namespace npu_precision
