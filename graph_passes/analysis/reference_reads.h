// Reads of TensorFlow 1's reference variables.
//
// Identity, Enter, Switch and their like do not copy what a reference points to. Behind them, a
// tensor is the variable as it is when the reader runs, and a node that the reader has a control
// dependency on may write it. So none of them is lowered, which would make it a copy, and a Cast
// behind them gets the control dependencies of its reader.
#ifndef NPU_PRECISION_GRAPH_PASSES_ANALYSIS_REFERENCE_READS_H_
#define NPU_PRECISION_GRAPH_PASSES_ANALYSIS_REFERENCE_READS_H_

#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "graph_passes/graph/graph_view.h"

namespace npu_precision {

// Whose memory the outputs of a node are.
enum class Memory : char {
  kItsOwn,
  kOfReference,
  kOfReferenceOutsideLoop,  // of a loop that the node is in
};

bool YieldsReference(const GraphView& view, int id);

// Propagates the marks in `memory` (by node id) to consumers that alias their inputs. Nodes in
// `fed` do not: they yield what the caller feeds. Nor does a loop variable, which begins as a copy.
void PropagateMemory(const GraphView& view, const std::set<std::string>& fed,
                     std::vector<Memory>* memory);

struct ReferenceRead {
  OutputPort tensor = {-1, 0};  // what a Cast may read in the place of the Identity nodes behind it
  std::set<std::string> control_inputs;  // of those Identity nodes
  bool in_loop = false;                  // and the reference is outside
};

// A new node gets at most this many control inputs one by one. More are collected by one node, so
// that the edges do not outgrow the graph.
constexpr int kMaxControlInputs = 8;

class ReferenceReads {
 public:
  // `view` must outlive this object. `fed` as above.
  ReferenceReads(const GraphView& view, const std::set<std::string>& fed);

  // Whether the node yields a reference's memory, and is no reference itself.
  bool AliasesReference(int id) const {
    return memory_[id] != Memory::kItsOwn && !YieldsReference(view_, id);
  }

  // Whether `tensor` is a reference, or aliases one; if so, fills `read`.
  bool Find(OutputPort tensor, ReferenceRead* read);

 private:
  void AddNode(int id, ReferenceRead* read) const;

  const GraphView& view_;
  std::vector<Memory> memory_;                    // by node id
  std::unordered_map<int, ReferenceRead> reads_;  // by node id, of what aliases in its own frame
};

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_ANALYSIS_REFERENCE_READS_H_
