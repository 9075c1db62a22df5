// Determines the input and the control inputs of a Cast of TensorFlow 1's reference variables.
//
// A reference is read when its reader runs, and the reader may run after an assignment that it has
// a control dependency on. So the Cast gets the reader's control inputs, and those of the nodes
// between it and the reference. It reads the reference itself, so that no optimizer moves it past
// an Identity with control inputs.
// Before: v(ref) -> Identity -> MatMul, assign -> ^MatMul.
// After: v(ref) -> Cast -> MatMul, assign -> ^Cast, assign -> ^MatMul.
//
// Refused: such a Cast is not shared if its reader has control inputs of its own, or if the
// reference is outside of the reader's loop.
#ifndef NPU_PRECISION_GRAPH_PASSES_REWRITE_REFERENCE_CASTS_H_
#define NPU_PRECISION_GRAPH_PASSES_REWRITE_REFERENCE_CASTS_H_

#include <map>
#include <set>
#include <string>
#include <utility>

#include "graph_passes/analysis/reference_reads.h"
#include "graph_passes/rewrite/changed_graph.h"

namespace npu_precision {

struct CastSource {
  OutputPort tensor;
  std::set<std::string> control_inputs;
  bool is_shared;  // one Cast of it serves all readers
};

class ReferenceCasts {
 public:
  // Both must outlive this object.
  ReferenceCasts(const std::set<std::string>& fed, ChangedGraph* graph);

  // The input for a Cast of `tensor` for `reader`: `tensor`, unless its memory is a reference's.
  CastSource SourceOf(const OutputPort& tensor, int reader);

 private:
  void AddInputsOfReader(int reader, int source, ReferenceRead* read);
  void AddInputsOf(int reader, bool in_loop, int source, std::set<std::string>* inputs) const;
  const std::string& CollectorOf(int reader, bool in_loop);

  ChangedGraph& graph_;
  const GraphView& view_;
  ReferenceReads reads_;
  std::map<std::pair<int, bool>, std::string> collectors_;  // by reader, and whether in a loop
};

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_REWRITE_REFERENCE_CASTS_H_
