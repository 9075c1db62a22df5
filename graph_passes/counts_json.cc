#include "graph_passes/counts_json.h"

#include "graph_passes/decide/reasons.h"
#include "graph_passes/ledger.h"

namespace npu_precision {
namespace {

int64_t Bytes(const Json::Value& value) { return value.isNull() ? kUnknownBytes : value.asInt64(); }

LedgerNode NodeFromJson(const Json::Value& json) {
  LedgerNode node;
  node.op = json["op"].asString();
  node.list = json["list"].asString();
  node.decision = json["decision"].asString();
  node.reason = json["reason"].asString();
  node.computes_in = json["computes_in"].asString();
  for (const Json::Value& change : json["dtypes"]) {
    node.dtypes.push_back({"", change[0].asString(), change[1].asString()});
  }
  node.role = json["role"].asString();
  // Ledgers of earlier versions have no roles.
  if (node.role.empty() && node.reason == ReasonName(Reason::kNeutralSource)) {
    node.role = NodeRoleName(NodeRole::kSource);
  }
  if (json["flops"].isNumeric()) node.flops = json["flops"].asDouble();
  return node;
}

template <typename Key>
Json::Value ByName(const std::map<Key, int>& counts, const char* (*name)(Key)) {
  Json::Value json(Json::objectValue);
  for (const auto& entry : counts) json[name(entry.first)] = entry.second;
  return json;
}

}  // namespace

Json::Value CountsJson(const Counts& counts) {
  Json::Value json(Json::objectValue);
  json["float_nodes"] = counts.float_nodes;
  json["sources"] = counts.sources;
  json["variable_updates"] = counts.variable_updates;
  json["bookkeeping"] = counts.bookkeeping;
  json["lowered"] = counts.lowered;
  json["raised"] = counts.raised;
  json["kept"] = counts.kept;
  json["products"] = counts.products;
  json["products_changed"] = counts.products_changed;
  json["white"] = counts.white;
  json["white_lowered"] = counts.white_lowered;
  const bool knows_flops = counts.products_of_known_size == counts.products;
  json["flops"] = knows_flops ? Json::Value(counts.flops) : Json::Value();
  json["flops_lowered"] = knows_flops ? Json::Value(counts.flops_lowered) : Json::Value();
  json["computed_in_float32"] = counts.computed_in_float32;
  json["casts"] = counts.casts;
  json["cast_bytes"] = Json::Int64(counts.cast_bytes);
  json["casts_of_unknown_size"] = counts.casts_of_unknown_size;
  json["collectives"] = counts.collectives;
  json["collective_bytes_before"] = Json::Int64(counts.collective_bytes_before);
  json["collective_bytes_after"] = Json::Int64(counts.collective_bytes_after);
  json["by_list"] = ByName(counts.by_list, ListColorName);
  json["by_reason"] = ByName(counts.by_reason, ReasonName);
  return json;
}

Counts CountsFromJson(const Json::Value& entries) {
  Counts counts;
  for (const Json::Value& node : entries["nodes"]) counts.AddNode(Counted(NodeFromJson(node)));
  for (const Json::Value& cast : entries["casts"]) counts.AddCast(Bytes(cast["bytes"]));
  for (const Json::Value& rewrite : entries["rewrites"])
    ++counts.rewrites[rewrite["by"].asString()];
  for (const Json::Value& json : entries["collectives"]) {
    CollectiveEntry collective;
    collective.bytes_before = Bytes(json["bytes_before"]);
    collective.bytes_after = Bytes(json["bytes_after"]);
    counts.AddCollective(collective);
  }
  return counts;
}

}  // namespace npu_precision
