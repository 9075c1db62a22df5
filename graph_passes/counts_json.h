// Counts as JSON, and the entries of ledgers counted anew: the command counts parts of several
// ledgers together, such as what one signature of a model computes.
#ifndef NPU_PRECISION_GRAPH_PASSES_COUNTS_JSON_H_
#define NPU_PRECISION_GRAPH_PASSES_COUNTS_JSON_H_

#include "graph_passes/counts.h"
#include "include/json/json.h"

namespace npu_precision {

// The fields of docs/ledger.md's "totals" that are about nodes, Casts and collectives. The bytes
// are sums over what is of known size; "casts_of_unknown_size" counts the others.
Json::Value CountsJson(const Counts& counts);

// Of `entries`: "nodes", "casts", "rewrites" and "collectives" as they are in ledgers. Of a node,
// "op", "list", "decision", "reason", "computes_in" and "flops" are read; what an older ledger
// lacks is unknown.
Counts CountsFromJson(const Json::Value& entries);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_COUNTS_JSON_H_
