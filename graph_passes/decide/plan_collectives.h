// Plans which all-reduces can carry the low type: those of gradients that come out of a Cast to
// float32.
//
// A sum over workers in the low type is rounded after each addition. Gradients can afford that,
// because they are many and noisy. Losses, metrics, flags and the statistics of a batch norm stay
// float32, and so do small tensors, which would gain nothing.
//
// tf.distribute packs the gradients of a step: it concatenates them, reduces the result, and splits
// the sum at the same places. A pack is lowered in part if only some of its parts can be.
#ifndef NPU_PRECISION_GRAPH_PASSES_DECIDE_PLAN_COLLECTIVES_H_
#define NPU_PRECISION_GRAPH_PASSES_DECIDE_PLAN_COLLECTIVES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "graph_passes/decide/decide_context.h"
#include "graph_passes/graph/constant_values.h"
#include "graph_passes/graph/element_counts.h"
#include "graph_passes/graph/graph_view.h"

namespace npu_precision {

enum class CollectiveReason {
  kLowered,
  kFixed,         // the collective is fetched or fed
  kNotASum,       // a maximum, for example
  kNoLowCast,     // it does not come out of a Cast from a low type
  kNotAGradient,  // or it is not known whether it is one
  kFewElements,
  kUnknownSize,  // of the tensor or, in float16, of the group
  kNoKernel,
  kSplitElsewhere,  // a concatenation that is not split into the same parts
  kMixedPack,       // has parts that stay float32, and the collective cannot be doubled
  kReplicasDiffer,  // the replicas of this graph, one per device, would not all lower the same
};

std::string CollectiveReasonName(CollectiveReason reason);

// A tensor that is reduced: alone, or in a pack.
struct CollectivePart {
  OutputPort low = {-1, 0};  // what its Cast to float32 reads
  int64_t elements = kUnknownElements;
  CollectiveReason reason = CollectiveReason::kNoLowCast;
};

struct CollectivePlan {
  int id;  // the node that reduces
  tensorflow::DataType low_type = tensorflow::DT_INVALID;
  int64_t group_size = 0;  // 0: not known
  bool divides = false;    // before it adds up
  std::vector<CollectivePart> parts;
  // For a pack; -1 otherwise.
  int concat = -1, split = -1;

  // kLowered if any part is lowered; else the reason of the largest part.
  CollectiveReason reason() const;
  int num_lowered() const;
  bool is_lowered_whole() const;
};

// Returns a plan for each node that reduces float32 tensors, in the order of the nodes. `view` is
// of a graph with Casts.
std::vector<CollectivePlan> PlanCollectives(const GraphView& view, const ConstantValues& values,
                                            const DecideContext& context);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_DECIDE_PLAN_COLLECTIVES_H_
