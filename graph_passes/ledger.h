// The ledger: the decision about every float node and its reason, as data and as JSON.
#ifndef NPU_PRECISION_GRAPH_PASSES_LEDGER_H_
#define NPU_PRECISION_GRAPH_PASSES_LEDGER_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "graph_passes/counts.h"
#include "graph_passes/decide/decide_context.h"
#include "graph_passes/decide/decision.h"
#include "graph_passes/graph/graph_view.h"
#include "graph_passes/rewrite/collective_entry.h"
#include "graph_passes/rewrite/rewrite_entry.h"
#include "tensorflow/core/framework/tensor_shape.h"

namespace npu_precision {

// The value of "schema" in the JSON.
constexpr char kLedgerSchema[] = "npu_precision.ledger/1";

struct DtypeChange {
  std::string group;  // type attribute, "T" or "T[2]"
  std::string before;
  std::string after;
};

struct LedgerNode {
  std::string name, op, device;
  std::string role;  // see node_roles.h
  std::string list, listed_by;
  std::string decision, reason, cause;
  std::string why_listed;  // for a node kept by the black list: the list's reason, in words
  std::vector<DtypeChange> dtypes;
  std::string computes_in;  // for a lowered node: the dtype that its kernel computes in
  ValueRange range;         // of its outputs
  bool lacks_kernel = false;
  double flops = kUnknownFlops;  // of a matrix or convolution op, for one sample
  std::vector<tensorflow::PartialTensorShape> shapes;  // of its outputs, as far as they are known
};

struct LedgerCast {
  std::string name;
  std::string input;  // "conv1:0"
  std::string from, to;
  int64_t bytes = kUnknownBytes;  // of the tensor it writes, if the shape is known
  int consumers = 0;
};

// The TensorFlow ops that an Ascend IR name in the mixlist stands for.
struct LedgerMapping {
  std::string entry;
  std::string place;  // "FILE:LINE:COLUMN"
  std::vector<std::string> ops;
};

struct Ledger {
  std::string graph;
  std::string process;    // empty if no process runs the graph
  bool compiled = false;  // by XLA
  std::vector<std::pair<std::string, std::string>> options;
  int total_nodes = 0;
  Counts counts;  // nodes only: see CountsOf
  int casts = 0;
  std::vector<LedgerNode> nodes;      // empty unless details were asked for
  std::vector<LedgerCast> cast_list;  // empty unless details were asked for
  std::vector<RewriteEntry> rewrites;
  std::vector<MissedRewrite> missed;
  std::vector<CollectiveEntry> collectives;  // if they may be lowered
  std::vector<LedgerMapping> mappings;
  std::vector<std::string> warnings;
  // The warnings about entries that match no node. In some graphs entries are not expected to
  // match: see IsWhatListsAreFor.
  std::vector<std::string> unmatched;
  std::vector<std::string> matched;  // the warnings that the matching entries would have
  bool matches_expected = false;
};

// `view` is the graph that the decisions are about, `after` the rewritten one.
void FillLedger(const GraphView& view, const Decisions& decisions, const GraphView& after,
                const DecideContext& context, bool details, Ledger* ledger);

// The counted properties of a ledger entry.
CountedNode Counted(const LedgerNode& node);

// The counts of the nodes, and those of Casts, rewrites and collectives.
Counts CountsOf(const Ledger& ledger);

// The ledger as JSON, by the schema in docs/ledger.md. The same ledger gives the same bytes.
std::string LedgerJson(const Ledger& ledger);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_LEDGER_H_
