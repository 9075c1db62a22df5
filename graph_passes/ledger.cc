#include "graph_passes/ledger.h"

#include <cmath>
#include <memory>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "graph_passes/decide/kept_by_mark.h"
#include "graph_passes/decide/reasons.h"
#include "graph_passes/graph/dtype_names.h"
#include "graph_passes/graph/marks.h"
#include "graph_passes/graph/op_set.h"
#include "include/json/json.h"

namespace npu_precision {
namespace {

using tensorflow::DataType;

LedgerNode NodeEntry(const GraphView& view, const Decisions& decisions, int id) {
  const Decision& decision = decisions.nodes[id];
  const tensorflow::NodeDef& def = view.node(id);
  LedgerNode node;
  node.name = def.name();
  node.op = def.op();
  node.device = def.device();
  node.list = ListColorName(decision.listing.color);
  node.listed_by = decision.listing.listed_by == nullptr ? "" : *decision.listing.listed_by;
  node.decision = VerdictName(decision.verdict);
  node.reason = ReasonName(decision.reason);
  if (decision.reason == Reason::kBlackList && decision.listing.why != nullptr) {
    node.why_listed = *decision.listing.why;
  }
  node.range = decisions.ranges[id];
  node.lacks_kernel = decision.lacks_kernel;
  if (decision.cause >= 0) node.cause = view.node(decision.cause).name();
  DecisionMark mark;  // of an earlier run, which knows what the dtypes were before it
  ReadDecisionMark(def, &mark);
  for (int g = 0; g < view.num_groups(id); ++g) {
    const TypeGroup& group = view.groups(id)[g];
    const std::string name = GroupName(*view.op_def(id), group);
    const auto before = mark.before.find(name);
    node.dtypes.push_back({name,
                           before == mark.before.end() ? DtypeName(group.dtype) : before->second,
                           DtypeName(decisions.group_dtypes[view.first_group(id) + g])});
  }
  return node;
}

// Whether a lowered node computes in float32, on rounded values. A Cast may have its name now.
bool ComputesInFloat32(const GraphView& after, const std::string& name) {
  const int id = after.IndexOf(name);
  if (id < 0) return false;
  const int node = after.LookThroughInserted({id, 0}).node;
  return !GroupsInFloat32(after.node(node)).empty();
}

// Whether the run is about marked nodes, and the node is told of by another one.
bool IsOfAnotherRun(const tensorflow::NodeDef& node, const DecideContext& context) {
  const bool tells_of_all =
      context.autocast.empty() || context.autocast.count(tensorflow::DT_INVALID) != 0;
  return !tells_of_all && KeptByMark(node, context, true) == Reason::kOutsideAutocast;
}

LedgerCast CastEntry(const GraphView& view, int id) {
  const OutputPort from = view.fanin(id)[0];
  LedgerCast cast;
  cast.name = view.node(id).name();
  cast.input = absl::StrCat(view.node(from.node).name(), ":", from.port);
  cast.from = DtypeName(view.inputs(id)[0].dtype);
  cast.to = DtypeName(view.outputs(id)[0].dtype);
  cast.consumers = view.fanout(id).size();
  return cast;
}

// An end that is not known is null, and so is a range without any.
Json::Value RangeJson(const ValueRange& range) {
  if (range.IsUnknown() || range.IsNothing()) return Json::Value();
  Json::Value json(Json::arrayValue);
  for (double end : {range.low, range.high}) {
    json.append(std::isfinite(end) ? Json::Value(end) : Json::Value());
  }
  return json;
}

Json::Value NodeJson(const LedgerNode& node) {
  Json::Value json(Json::objectValue);
  json["name"] = node.name;
  json["op"] = node.op;
  json["device"] = node.device;
  json["list"] = node.list;
  json["listed_by"] = node.listed_by;
  json["decision"] = node.decision;
  json["reason"] = node.reason;
  json["cause"] = node.cause;
  json["why_listed"] = node.why_listed;
  Json::Value dtypes(Json::objectValue);
  for (const DtypeChange& change : node.dtypes) {
    dtypes[change.group].append(change.before);
    dtypes[change.group].append(change.after);
  }
  json["dtypes"] = dtypes;
  json["computes_in"] = node.computes_in;
  json["range"] = RangeJson(node.range);
  json["lacks_kernel"] = node.lacks_kernel;
  return json;
}

Json::Value BytesJson(int64_t bytes) {
  if (bytes == kUnknownBytes) return Json::Value();
  return Json::Value(static_cast<Json::Int64>(bytes));
}

Json::Value CastJson(const LedgerCast& cast) {
  Json::Value json(Json::objectValue);
  json["name"] = cast.name;
  json["input"] = cast.input;
  json["from"] = cast.from;
  json["to"] = cast.to;
  json["bytes"] = BytesJson(cast.bytes);
  json["consumers"] = cast.consumers;
  return json;
}

Json::Value RewriteJson(const RewriteEntry& rewrite) {
  Json::Value json(Json::objectValue);
  json["by"] = rewrite.by;
  json["node"] = rewrite.node;
  json["before"] = rewrite.before;
  json["after"] = rewrite.after;
  return json;
}

Json::Value CollectiveJson(const CollectiveEntry& collective) {
  Json::Value json(Json::objectValue);
  json["name"] = collective.node;
  json["op"] = collective.op;
  json["reason"] = collective.reason;
  json["tensors"] = collective.tensors;
  json["lowered"] = collective.lowered;
  json["bytes_before"] = BytesJson(collective.bytes_before);
  json["bytes_after"] = BytesJson(collective.bytes_after);
  return json;
}

Json::Value MappingJson(const LedgerMapping& mapping) {
  Json::Value json(Json::objectValue);
  json["entry"] = mapping.entry;
  json["place"] = mapping.place;
  json["ops"] = Json::Value(Json::arrayValue);
  for (const std::string& op : mapping.ops) json["ops"].append(op);
  return json;
}

Json::Value CountsJson(const std::map<std::string, int>& counts) {
  Json::Value json(Json::objectValue);
  for (const auto& entry : counts) json[entry.first] = entry.second;
  return json;
}

// Sums over all collectives, unknown as soon as one is.
struct CollectiveBytes {
  int64_t before = 0, after = 0;
};

CollectiveBytes SumOf(const std::vector<CollectiveEntry>& collectives) {
  CollectiveBytes sum;
  for (const CollectiveEntry& collective : collectives) {
    if (collective.bytes_before == kUnknownBytes) return {kUnknownBytes, kUnknownBytes};
    sum.before += collective.bytes_before;
    sum.after += collective.bytes_after;
  }
  return sum;
}

// The sum over all casts, unknown as soon as one is.
int64_t CastBytes(const Ledger& ledger) {
  int64_t sum = 0;
  for (const LedgerCast& cast : ledger.cast_list) {
    if (cast.bytes == kUnknownBytes) return kUnknownBytes;
    sum += cast.bytes;
  }
  return sum;
}

Json::Value TotalsJson(const Ledger& ledger) {
  Json::Value totals(Json::objectValue);
  totals["nodes"] = ledger.total_nodes;
  totals["float_nodes"] = ledger.float_nodes;
  totals["sources"] = ledger.sources;
  totals["lowered"] = ledger.lowered;
  totals["raised"] = ledger.raised;
  totals["kept"] = ledger.kept;
  totals["casts"] = ledger.casts;
  totals["cast_bytes"] = BytesJson(CastBytes(ledger));
  const CollectiveBytes collectives = SumOf(ledger.collectives);
  totals["collective_bytes_before"] = BytesJson(collectives.before);
  totals["collective_bytes_after"] = BytesJson(collectives.after);
  totals["by_list"] = CountsJson(ledger.by_list);
  totals["by_reason"] = CountsJson(ledger.by_reason);
  return totals;
}

}  // namespace

void FillLedger(const GraphView& view, const Decisions& decisions, const GraphView& after,
                const DecideContext& context, bool details, Ledger* ledger) {
  std::map<ListColor, int> by_list;
  std::map<Reason, int> by_reason;
  for (int id = 0; id < view.size(); ++id) {
    const Decision& decision = decisions.nodes[id];
    // A Cast of an earlier run has a decision too, if it has control inputs; it is not counted.
    if (decision.verdict == Verdict::kNotFloat || view.IsInserted(id)) continue;
    if (IsOfAnotherRun(view.node(id), context)) continue;
    ++ledger->float_nodes;
    ledger->lowered += decision.verdict == Verdict::kLowered;
    ledger->raised += decision.verdict == Verdict::kRaised;
    ledger->kept += decision.verdict == Verdict::kKept;
    ++by_list[decision.listing.color];
    ++by_reason[decision.reason];
    const bool lowered = decision.verdict == Verdict::kLowered;
    const bool in_float32 = lowered && ComputesInFloat32(after, view.node(id).name());
    ledger->computed_in_float32 += in_float32;
    if (!details) continue;
    ledger->nodes.push_back(NodeEntry(view, decisions, id));
    if (lowered) {
      ledger->nodes.back().computes_in =
          DtypeName(in_float32 ? tensorflow::DT_FLOAT : context.NewDtype());
    }
  }
  for (const auto& entry : by_list) ledger->by_list[ListColorName(entry.first)] = entry.second;
  for (const auto& entry : by_reason) ledger->by_reason[ReasonName(entry.first)] = entry.second;
  CountSourcesApart(ledger);
  for (const MixlistEntry& entry : context.lists->edits()) {
    const bool is_itself = entry.ops == std::vector<std::string>{entry.text};
    if (entry.node_pattern != nullptr || is_itself) continue;
    ledger->mappings.push_back({entry.text, entry.place, entry.ops});
  }
  if (context.custom_dtypes != nullptr) {
    for (const CustomDtypes& line : context.custom_dtypes->lines()) {
      if (!line.names_op || line.ops == std::vector<std::string>{line.subject}) continue;
      ledger->mappings.push_back({line.subject, line.place, line.ops});
    }
  }
  ledger->total_nodes = after.size();
  const OpSet casts(after, "Cast");
  for (int id = 0; id < after.size(); ++id) {
    if (!casts.Has(id) || !after.IsInserted(id)) continue;
    ++ledger->casts;
    if (details) ledger->cast_list.push_back(CastEntry(after, id));
  }
}

std::string LedgerJson(const Ledger& ledger) {
  Json::Value root(Json::objectValue);
  root["schema"] = kLedgerSchema;
  root["graph"] = ledger.graph;
  if (!ledger.process.empty()) root["process"] = ledger.process;
  root["options"] = Json::Value(Json::objectValue);
  for (const auto& option : ledger.options) root["options"][option.first] = option.second;
  root["totals"] = TotalsJson(ledger);
  root["nodes"] = Json::Value(Json::arrayValue);
  for (const LedgerNode& node : ledger.nodes) root["nodes"].append(NodeJson(node));
  root["casts"] = Json::Value(Json::arrayValue);
  for (const LedgerCast& cast : ledger.cast_list) root["casts"].append(CastJson(cast));
  root["rewrites"] = Json::Value(Json::arrayValue);
  for (const RewriteEntry& rewrite : ledger.rewrites) root["rewrites"].append(RewriteJson(rewrite));
  root["collectives"] = Json::Value(Json::arrayValue);
  for (const CollectiveEntry& collective : ledger.collectives) {
    root["collectives"].append(CollectiveJson(collective));
  }
  root["mappings"] = Json::Value(Json::arrayValue);
  for (const LedgerMapping& mapping : ledger.mappings)
    root["mappings"].append(MappingJson(mapping));
  root["warnings"] = Json::Value(Json::arrayValue);
  for (const std::string& warning : ledger.warnings) root["warnings"].append(warning);
  root["unmatched"] = Json::Value(ledger.matches_expected ? Json::arrayValue : Json::nullValue);
  for (const std::string& warning : ledger.unmatched) root["unmatched"].append(warning);
  Json::StreamWriterBuilder builder;
  builder["indentation"] = " ";
  const std::unique_ptr<Json::StreamWriter> writer(builder.newStreamWriter());
  std::ostringstream out;
  writer->write(root, &out);
  out << "\n";
  return out.str();
}

void CountSourcesApart(Ledger* ledger) {
  const auto found = ledger->by_reason.find(ReasonName(Reason::kNeutralSource));
  ledger->sources = found == ledger->by_reason.end() ? 0 : found->second;
  ledger->float_nodes -= ledger->sources;
  ledger->kept -= ledger->sources;
}

std::string LedgerSummary(const Ledger& ledger) {
  const bool raising = ledger.raised > 0;
  std::string summary =
      absl::StrCat(raising ? "raised " : "lowered ", raising ? ledger.raised : ledger.lowered,
                   " of ", ledger.float_nodes, " float nodes, ", ledger.casts, " casts");
  if (ledger.computed_in_float32 > 0) {
    absl::StrAppend(&summary, ", ", ledger.computed_in_float32, " computed in float32");
  }
  std::map<std::string, int> rewrites;
  for (const RewriteEntry& rewrite : ledger.rewrites) ++rewrites[rewrite.by];
  for (const auto& entry : rewrites) {
    absl::StrAppend(&summary, ", ", entry.second, " by ", entry.first);
  }
  const CollectiveBytes collectives = SumOf(ledger.collectives);
  if (collectives.before > collectives.after) {
    absl::StrAppend(&summary, ", ", collectives.after, " of ", collectives.before,
                    " bytes to reduce");
  }
  return summary;
}

}  // namespace npu_precision
