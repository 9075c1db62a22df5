// Which all-reduces can carry the low type: those of gradients that come out of a Cast to float32.
//
// What is added up over workers is then rounded to the low type after each addition. That is for
// gradients, which are many and noisy; losses, metrics, flags and the statistics of a batch norm
// stay float32, and so do small tensors, where nothing is to be gained.
//
// tf.distribute packs the gradients of a step: it concatenates them, reduces that, and splits the
// sum at the same places. Of such a pack, the parts that can be lowered are.
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
  kFixed,         // it is fetched or fed
  kNotASum,       // but a maximum, say
  kNoLowCast,     // it comes out of no Cast from a low type
  kNotAGradient,  // or not known to be one
  kFewElements,
  kUnknownSize,  // of the tensor or, in float16, of the group
  kNoKernel,
  kSplitElsewhere,  // a concatenation that is not split into the same parts
  kMixedPack,       // with parts that stay float32, of a collective that cannot be doubled
  kReplicasDiffer,  // the replicas of this graph, a device each, would not all lower the same
};

std::string CollectiveReasonName(CollectiveReason reason);

// A tensor that is reduced: alone, or in a pack.
struct CollectivePart {
  OutputPort low = {-1, 0};  // what its Cast to float32 reads
  int64_t elements = kUnknownElements;
  CollectiveReason reason = CollectiveReason::kNoLowCast;
};

struct CollectivePlan {
  int id;  // of the node that reduces
  tensorflow::DataType low_type = tensorflow::DT_INVALID;
  int64_t group_size = 0;  // 0: not known
  bool divides = false;    // before the sum
  std::vector<CollectivePart> parts;
  // Of a pack; -1 otherwise.
  int concat = -1, split = -1;

  // kLowered if any part is; else that of the largest part.
  CollectiveReason reason() const;
  int num_lowered() const;
  bool is_lowered_whole() const;
};

// In the order of the nodes, one for each node that reduces float32 tensors. `view` is of a graph
// with Casts.
std::vector<CollectivePlan> PlanCollectives(const GraphView& view, const ConstantValues& values,
                                            const DecideContext& context);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_DECIDE_PLAN_COLLECTIVES_H_
