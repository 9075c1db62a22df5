// The reasons of decisions as a table: the word in ledgers, the sentence for users, and the kind
// that rules and tools ask for. To add a reason, add a line to `Reason` in decision.h and a row to
// reasons.cc.
#ifndef NPU_PRECISION_GRAPH_PASSES_DECIDE_REASONS_H_
#define NPU_PRECISION_GRAPH_PASSES_DECIDE_REASONS_H_

#include <string>
#include <vector>

#include "graph_passes/decide/decision.h"

namespace npu_precision {

// The kinds of facts that a decision depends on.
enum class ReasonKind : unsigned char {
  kNone,
  kList,      // the lists
  kLine,      // a line of customize_dtypes
  kMode,      // the mode
  kVotes,     // other nodes, whose votes or dtypes decide
  kKeepRule,  // a rule that keeps float32 because of values; see keep_rules.h
  kUse,       // the use of the node, or the cost of its Casts
  kSource,    // the node is a source: its dtype stays, but a Cast may follow it
  kNode,      // the node itself, which no list changes
  kSupport,   // dtypes that its op, the target or the kernels lack
};

struct ReasonRow {
  Reason reason;
  const char* word;
  ReasonKind kind;
  bool lowers;           // a node with this reason is lowered or raised, whatever its predecessors
  const char* sentence;  // {cause} stands for the node's cause, {by} for its place on a list
};

// In the order of `Reason`.
const std::vector<ReasonRow>& Reasons();

std::string ReasonKindName(ReasonKind kind);

const char* ReasonName(Reason reason);
// The reason with that name, or kNone.
Reason ReasonFromName(const std::string& name);

ReasonKind KindOf(Reason reason);
// Whether a node with this reason is lowered (or raised) whatever its predecessors are.
bool LowersByItself(Reason reason);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_DECIDE_REASONS_H_
