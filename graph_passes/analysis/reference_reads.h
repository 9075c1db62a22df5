// Finds reads of TensorFlow 1's reference variables.
//
// Identity, Enter, Switch and similar ops do not copy the memory that a reference points to. A
// tensor behind them is the variable at the time when the reader runs, and a node that the reader
// has a control dependency on may write it. So none of these ops is lowered, because that would
// make it a copy. A Cast behind them gets the control dependencies of its reader.
#ifndef NPU_PRECISION_GRAPH_PASSES_ANALYSIS_REFERENCE_READS_H_
#define NPU_PRECISION_GRAPH_PASSES_ANALYSIS_REFERENCE_READS_H_

#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "graph_passes/graph/graph_view.h"

namespace npu_precision {

// The owner of the memory of a node's outputs.
enum class Memory : char {
  kItsOwn,
  kOfReference,
  kOfReferenceOutsideLoop,  // outside of the loop that the node is in
};

bool YieldsReference(const GraphView& view, int id);

// Propagates the marks in `memory` (by node id) to consumers that alias their inputs. It skips
// nodes in `fed`, because they yield what the caller feeds, and loop variables, because each begins
// as a copy.
void PropagateMemory(const GraphView& view, const std::set<std::string>& fed,
                     std::vector<Memory>* memory);

struct ReferenceRead {
  OutputPort tensor = {-1, 0};  // what a Cast may read instead of the Identity nodes behind it
  std::set<std::string> control_inputs;  // of those Identity nodes
  bool in_loop = false;                  // the reader is in a loop, and the reference is outside
};

// A new node gets at most this many control inputs directly. One node collects any more of them, so
// that the number of edges stays proportional to the graph.
constexpr int kMaxControlInputs = 8;

class ReferenceReads {
 public:
  // `view` must outlive this object. `fed` as above.
  ReferenceReads(const GraphView& view, const std::set<std::string>& fed);

  // Whether the node yields the memory of a reference, and is not a reference itself.
  bool AliasesReference(int id) const {
    return memory_[id] != Memory::kItsOwn && !YieldsReference(view_, id);
  }

  // Whether `tensor` is a reference, or aliases one; if so, fills `read`.
  bool Find(OutputPort tensor, ReferenceRead* read);

 private:
  void AddNode(int id, ReferenceRead* read) const;

  const GraphView& view_;
  std::vector<Memory> memory_;  // by node id
  // By node id; only nodes that alias in their own frame.
  std::unordered_map<int, ReferenceRead> reads_;
};

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_ANALYSIS_REFERENCE_READS_H_
