// Brings tensors that are converted outside of a loop into the loop.
//
// A tensor that is the same in every iteration is converted once, outside of all loops in which it
// does not vary. A carrier is a copy of the Enter, Switch or Identity that brings the unconverted
// tensor to its consumer.
// Before: w -> Enter -> Switch -> MatMul.
// After: w -> Cast -> another Enter -> another Switch -> MatMul.
//
// Refused: tensors that vary according to LoopInvariants, such as a variable that the loop may
// write.
#ifndef NPU_PRECISION_GRAPH_PASSES_REWRITE_LOOP_CARRIERS_H_
#define NPU_PRECISION_GRAPH_PASSES_REWRITE_LOOP_CARRIERS_H_

#include <map>
#include <set>
#include <string>
#include <tuple>

#include "graph_passes/analysis/loop_invariants.h"
#include "graph_passes/rewrite/changed_graph.h"

namespace npu_precision {

struct Conversion {
  tensorflow::DataType to;
  bool rounds;  // from float32 through `to` and back

  tensorflow::DataType dtype() const { return rounds ? tensorflow::DT_FLOAT : to; }
};

class LoopCarriers {
 public:
  // Both must outlive this object.
  LoopCarriers(const std::set<std::string>& fed, ChangedGraph* graph);

  // The Enter whose input equals the tensor in every iteration of its loop, or -1.
  int EnterOf(const OutputPort& tensor) const { return invariants_.EnterOf(tensor); }

  // The text of an input that reads the converted tensor from a carrier, or "" if there is none.
  std::string Find(const Conversion& conversion, const OutputPort& tensor) const;

  // Carries `outside`, the converted input of the tensor's Enter, into the loop of `tensor`.
  std::string Carry(const Conversion& conversion, const OutputPort& tensor,
                    const std::string& outside);

 private:
  using Key = std::tuple<int, int, tensorflow::DataType, bool>;
  static Key KeyOf(const Conversion& conversion, const OutputPort& tensor);

  std::string AddCarrierOf(const OutputPort& tensor, const std::string& entered,
                           tensorflow::DataType dtype);
  tensorflow::NodeDef* AddCarrier(const std::string& name, int id, const std::string& input,
                                  tensorflow::DataType dtype);

  ChangedGraph& graph_;
  const GraphView& view_;
  const LoopInvariants invariants_;
  std::map<Key, std::string> carried_;
};

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_REWRITE_LOOP_CARRIERS_H_
