// Converts tensors to other dtypes for their consumers.
//
// There is one Cast per (tensor, dtype), which all consumers share, on the producer's device.
// Before: x -> MatMul, x -> Conv2D. After: x -> Cast -> MatMul, x -> the same Cast -> Conv2D.
// A tensor of the wanted dtype is reused if there is one: behind a Cast of this optimizer, or
// before a Cast that widened it. Tensors that are the same in every iteration are converted outside
// of loops: see loop_carriers.h. Reads of reference variables have Casts of their own: see
// reference_casts.h.
#ifndef NPU_PRECISION_GRAPH_PASSES_REWRITE_SHARED_CASTS_H_
#define NPU_PRECISION_GRAPH_PASSES_REWRITE_SHARED_CASTS_H_

#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "graph_passes/decide/decide_context.h"
#include "graph_passes/rewrite/changed_graph.h"
#include "graph_passes/rewrite/loop_carriers.h"
#include "graph_passes/rewrite/reference_casts.h"

namespace npu_precision {

class SharedCasts {
 public:
  // All must outlive this object. `varying` has the names of nodes that yield other values than
  // they read. Casts of an earlier run are shared too.
  SharedCasts(const DecideContext& context, const std::set<std::string>& varying,
              ChangedGraph* graph);

  // Adds a node `name` that yields the tensor in `dtype`.
  void Add(const OutputPort& tensor, tensorflow::DataType dtype, const std::string& name);

  // From now on, readers of the tensor as float32 outside of a loop read it rounded.
  void RoundOutput(const OutputPort& tensor, tensorflow::DataType low_type) {
    rounded_outputs_[{tensor.node, tensor.port}] = low_type;
  }

  // The text of an input of `consumer` that reads the tensor in `dtype`.
  std::string Cast(const OutputPort& tensor, tensorflow::DataType dtype, int consumer);
  // The same for a float32 tensor rounded to a low type and back.
  std::string Rounded(const OutputPort& tensor, tensorflow::DataType low_type, int consumer);
  // The result of Rounded() in another low type.
  std::string LowOf(const std::string& rounded, tensorflow::DataType low_type,
                    const std::string& device);
  // Adds a node `name` that yields the tensor rounded; `low` is the name of its input.
  void AddRounded(const std::string& low, const std::string& name) { rounded_[low] = name; }

 private:
  using Key = std::tuple<int, int, tensorflow::DataType>;  // tensor, dtype

  std::string Converted(const Conversion& conversion, OutputPort tensor, int consumer);
  std::string WithoutNewNode(tensorflow::DataType dtype, OutputPort* tensor) const;
  std::string CastOf(const OutputPort& tensor, tensorflow::DataType dtype, int consumer);
  void AddCast(const std::string& name, const CastSource& source, tensorflow::DataType dtype);
  std::string BackToFloat32(const std::string& low, tensorflow::DataType low_type,
                            const std::string& device);
  std::string RoundingOf(const OutputPort& tensor, tensorflow::DataType low_type, int consumer);

  const DecideContext& context_;
  ChangedGraph& graph_;
  const GraphView& view_;
  LoopCarriers carriers_;
  ReferenceCasts references_;
  std::map<Key, std::string> casts_;
  std::map<std::string, std::string> rounded_;  // by the input name of the low tensor
  std::map<std::pair<std::string, tensorflow::DataType>, std::string> low_of_rounded_;
  std::map<std::pair<int, int>, tensorflow::DataType> rounded_outputs_;  // by node and port
};

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_REWRITE_SHARED_CASTS_H_
