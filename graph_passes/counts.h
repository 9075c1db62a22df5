// Counts over the decisions, and one sentence about them. The log, the ledger, the command and the
// page print the same sentence.
#ifndef NPU_PRECISION_GRAPH_PASSES_COUNTS_H_
#define NPU_PRECISION_GRAPH_PASSES_COUNTS_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "graph_passes/analysis/node_roles.h"
#include "graph_passes/decide/decision.h"
#include "graph_passes/lists/list_color.h"
#include "graph_passes/rewrite/collective_entry.h"

namespace npu_precision {

constexpr int64_t kUnknownBytes = -1;
constexpr double kUnknownFlops = -1;

// A node with an input or output of a dtype that the mode may change.
struct CountedNode {
  NodeRole role = NodeRole::kComputes;
  Verdict verdict = Verdict::kKept;
  Reason reason = Reason::kNone;
  ListColor color = ListColor::kUnlisted;
  std::string changed_to;            // its dtype if it is lowered or raised: "bfloat16"
  bool is_product = false;           // a matrix or convolution op
  double flops = kUnknownFlops;      // of a product
  bool computes_in_float32 = false;  // although it is lowered
};

struct Counts {
  // Nodes that compute: all of them, and by verdict.
  int float_nodes = 0, lowered = 0, raised = 0, kept = 0;
  // The other nodes, by role, and those of them that are lowered or raised.
  int sources = 0, variable_updates = 0, bookkeeping = 0;
  std::map<NodeRole, int> changed_apart;
  int white = 0, white_lowered = 0;  // only nodes that compute
  // All products, those that are lowered or raised, and the dtypes that these have now.
  int products = 0, products_changed = 0;
  std::set<std::string> products_in;
  // The products of known size, and their flops.
  int products_of_known_size = 0;
  double flops = 0, flops_lowered = 0, flops_changed = 0;
  int computed_in_float32 = 0;                      // lowered nodes only
  std::map<ListColor, int> by_list;                 // of all roles
  std::map<Reason, int> by_reason, kept_by_reason;  // by_reason: of all roles
  std::map<Reason, int> white_kept_by_reason;
  int casts = 0, casts_of_unknown_size = 0;
  int64_t cast_bytes = 0;  // of the Casts of known size
  bool measured = true;    // whether the caller asked for the sizes of Casts
  std::map<std::string, int> rewrites;
  int collectives = 0, collectives_of_unknown_size = 0;
  int64_t collective_bytes_before = 0, collective_bytes_after = 0;  // collectives of known size

  void AddNode(const CountedNode& node);
  void AddCast(int64_t bytes);
  void AddCollective(const CollectiveEntry& collective);
};

// Returns a sentence such as "13 of 14 matrix and convolution ops in bfloat16 (96 % of their
// arithmetic); lowered 47 of 141 float nodes, 12 Casts of 1.2 MB; kept 94: 60 gray_follows_kept, 34
// black_list; apart: 220 of variable updates, 4 of bookkeeping".
std::string CountsSentence(const Counts& counts);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_COUNTS_H_
