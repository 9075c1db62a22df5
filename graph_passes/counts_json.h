// Converts Counts to JSON, and counts entries of ledgers anew: the command counts parts of several
// ledgers together, such as all bodies of one signature of a model.
#ifndef NPU_PRECISION_GRAPH_PASSES_COUNTS_JSON_H_
#define NPU_PRECISION_GRAPH_PASSES_COUNTS_JSON_H_

#include "graph_passes/counts.h"
#include "include/json/json.h"

namespace npu_precision {

// Returns the fields of "totals" in docs/ledger.md that are about nodes, Casts and collectives. The
// bytes are sums over Casts and collectives of known size; "casts_of_unknown_size" counts the
// others.
Json::Value CountsJson(const Counts& counts);

// Counts `entries`: "nodes", "casts", "rewrites" and "collectives" in the form of ledgers. It reads
// "op", "role", "list", "decision", "reason", "dtypes", "computes_in" and "flops" of a node. A key
// that an older ledger lacks counts as unknown.
Counts CountsFromJson(const Json::Value& entries);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_COUNTS_JSON_H_
