// Reads of TensorFlow 1's reference variables.
//
// Identity and Enter do not copy what a reference points to: behind them, a tensor is the variable
// as it is when the reader runs, and what the reader waits for may write it.
#ifndef NPU_PRECISION_GRAPH_PASSES_REFERENCE_READS_H_
#define NPU_PRECISION_GRAPH_PASSES_REFERENCE_READS_H_

#include <set>
#include <string>
#include <unordered_map>

#include "graph_passes/graph_view.h"

namespace npu_precision {

struct ReferenceRead {
  OutputPort tensor = {-1, 0};  // what a Cast may read in the place of the Identity nodes behind it
  std::set<std::string> waits;  // control inputs: what those wait for
  bool in_loop = false;         // and the reference is outside
};

// A node waits for this many others one by one; for more, through one that waits for all of them,
// so that the edges do not outgrow the graph.
constexpr int kMostWaits = 8;

class ReferenceReads {
 public:
  // Both must outlive this object. Nodes in `fed` yield what the caller feeds, not what they say.
  ReferenceReads(const GraphView& view, const std::set<std::string>& fed)
      : view_(view), fed_(fed) {}

  // Whether `tensor` is a reference, seen through Identity and Enter; if so, fills `read`.
  bool Find(OutputPort tensor, ReferenceRead* read);

 private:
  bool IsReference(const OutputPort& tensor) const;
  bool HandsOn(int id) const;
  void AddNode(int id, ReferenceRead* read) const;

  const GraphView& view_;
  const std::set<std::string>& fed_;
  std::unordered_map<int, ReferenceRead> reads_;  // by node id, of what hands on
};

// Adds the control inputs of `node`. False where it has none.
bool AddWaits(const tensorflow::NodeDef& node, std::set<std::string>* waits);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_REFERENCE_READS_H_
