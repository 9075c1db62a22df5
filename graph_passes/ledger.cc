#include "graph_passes/ledger.h"

#include <cmath>
#include <memory>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "graph_passes/analysis/product_flops.h"
#include "graph_passes/counts_json.h"
#include "graph_passes/decide/kept_by_mark.h"
#include "graph_passes/decide/reasons.h"
#include "graph_passes/graph/dtype_names.h"
#include "graph_passes/graph/marks.h"
#include "graph_passes/graph/op_set.h"
#include "graph_passes/graph/op_traits.h"
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
  DecisionMark mark;  // from an earlier run; it has the dtypes before that run
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

// Whether a lowered node computes in float32, on rounded values. A Cast may have taken its name.
bool ComputesInFloat32(const GraphView& after, const std::string& name) {
  const int id = after.IndexOf(name);
  if (id < 0) return false;
  const int node = after.LookThroughInserted({id, 0}).node;
  return !GroupsInFloat32(after.node(node)).empty();
}

// Whether this run is only about marked nodes, and another run reports the node.
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

// An unknown end is null, and so is a range with no known end.
Json::Value RangeJson(const ValueRange& range) {
  if (range.IsUnknown() || range.IsNothing()) return Json::Value();
  Json::Value json(Json::arrayValue);
  for (double end : {range.low, range.high}) {
    json.append(std::isfinite(end) ? Json::Value(end) : Json::Value());
  }
  return json;
}

Json::Value FlopsJson(double flops) { return flops < 0 ? Json::Value() : Json::Value(flops); }

// A size that is not known is null, and so is a shape whose rank is not known.
Json::Value ShapeJson(const tensorflow::PartialTensorShape& shape) {
  if (shape.unknown_rank()) return Json::Value();
  Json::Value json(Json::arrayValue);
  for (int dim = 0; dim < shape.dims(); ++dim) {
    const int64_t size = shape.dim_size(dim);
    json.append(size < 0 ? Json::Value() : Json::Value(static_cast<Json::Int64>(size)));
  }
  return json;
}

Json::Value NodeJson(const LedgerNode& node) {
  Json::Value json(Json::objectValue);
  json["name"] = node.name;
  json["op"] = node.op;
  json["device"] = node.device;
  json["role"] = node.role;
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
  json["flops"] = FlopsJson(node.flops);
  json["shapes"] = Json::Value(Json::arrayValue);
  for (const auto& shape : node.shapes) json["shapes"].append(ShapeJson(shape));
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

Json::Value MissedJson(const MissedRewrite& missed) {
  Json::Value json(Json::objectValue);
  json["by"] = missed.by;
  json["node"] = missed.node;
  json["why"] = missed.why;
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

// The sum, or null if any size is unknown.
Json::Value SumJson(int64_t bytes, int of_unknown_size) {
  return BytesJson(of_unknown_size > 0 ? kUnknownBytes : bytes);
}

Json::Value TotalsJson(const Ledger& ledger) {
  const Counts counts = CountsOf(ledger);
  Json::Value totals = CountsJson(counts);
  totals.removeMember("casts_of_unknown_size");
  totals.removeMember("collectives");
  totals["nodes"] = ledger.total_nodes;
  totals["cast_bytes"] = SumJson(counts.cast_bytes, counts.casts_of_unknown_size);
  const int unknown = counts.collectives_of_unknown_size;
  totals["collective_bytes_before"] = SumJson(counts.collective_bytes_before, unknown);
  totals["collective_bytes_after"] = SumJson(counts.collective_bytes_after, unknown);
  return totals;
}

}  // namespace

void FillLedger(const GraphView& view, const Decisions& decisions, const GraphView& after,
                const DecideContext& context, bool details, Ledger* ledger) {
  const std::vector<NodeRole> roles = NodeRoles(view, context.fetched);
  for (int id = 0; id < view.size(); ++id) {
    const Decision& decision = decisions.nodes[id];
    // A Cast of an earlier run has a decision too, if it has control inputs; it is not counted.
    if (decision.verdict == Verdict::kNotFloat || view.IsInserted(id)) continue;
    if (IsOfAnotherRun(view.node(id), context)) continue;
    CountedNode counted;
    counted.role = decision.reason == Reason::kNeutralSource ? NodeRole::kSource : roles[id];
    counted.verdict = decision.verdict;
    counted.changed_to = DtypeName(context.NewDtype());
    counted.reason = decision.reason;
    counted.color = decision.listing.color;
    const bool lowered = decision.verdict == Verdict::kLowered;
    counted.computes_in_float32 = lowered && ComputesInFloat32(after, view.node(id).name());
    counted.is_product = IsMatrixOrConvolution(view.node(id).op());
    // The first request for a shape infers all shapes, which takes time.
    if (details && counted.is_product && context.shapes) {
      counted.flops = ProductFlops(view, context.shapes, id);
    }
    ledger->counts.AddNode(counted);
    if (!details) continue;
    LedgerNode node = NodeEntry(view, decisions, id);
    node.role = NodeRoleName(counted.role);
    node.flops = counted.flops;
    for (size_t port = 0; context.shapes && port < view.outputs(id).size(); ++port) {
      node.shapes.push_back(context.shapes(node.name, port));
    }
    if (lowered) {
      node.computes_in =
          DtypeName(counted.computes_in_float32 ? tensorflow::DT_FLOAT : context.NewDtype());
    }
    ledger->nodes.push_back(std::move(node));
  }
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
  if (ledger.compiled) root["compiled"] = true;
  root["options"] = Json::Value(Json::objectValue);
  for (const auto& option : ledger.options) root["options"][option.first] = option.second;
  root["summary"] = CountsSentence(CountsOf(ledger));
  root["totals"] = TotalsJson(ledger);
  root["nodes"] = Json::Value(Json::arrayValue);
  for (const LedgerNode& node : ledger.nodes) root["nodes"].append(NodeJson(node));
  root["casts"] = Json::Value(Json::arrayValue);
  for (const LedgerCast& cast : ledger.cast_list) root["casts"].append(CastJson(cast));
  root["rewrites"] = Json::Value(Json::arrayValue);
  for (const RewriteEntry& rewrite : ledger.rewrites) root["rewrites"].append(RewriteJson(rewrite));
  root["missed"] = Json::Value(Json::arrayValue);
  for (const MissedRewrite& missed : ledger.missed) root["missed"].append(MissedJson(missed));
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

CountedNode Counted(const LedgerNode& node) {
  CountedNode counted;
  counted.role = NodeRoleFromName(node.role);
  counted.verdict = VerdictFromName(node.decision);
  for (const DtypeChange& change : node.dtypes) {
    if (change.before != change.after) counted.changed_to = change.after;
  }
  counted.reason = ReasonFromName(node.reason);
  counted.color = ListColorFromName(node.list);
  counted.is_product = IsMatrixOrConvolution(node.op);
  counted.flops = node.flops;
  counted.computes_in_float32 =
      counted.verdict == Verdict::kLowered && node.computes_in == DtypeName(tensorflow::DT_FLOAT);
  return counted;
}

Counts CountsOf(const Ledger& ledger) {
  Counts counts = ledger.counts;
  for (const LedgerCast& cast : ledger.cast_list) counts.AddCast(cast.bytes);
  counts.measured = counts.casts == ledger.casts;
  counts.casts = ledger.casts;
  for (const RewriteEntry& rewrite : ledger.rewrites) ++counts.rewrites[rewrite.by];
  for (const CollectiveEntry& collective : ledger.collectives) counts.AddCollective(collective);
  return counts;
}

}  // namespace npu_precision
