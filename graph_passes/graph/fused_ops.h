// Treats the ops that Grappler's remapper fuses as the ops that they consist of.
#ifndef NPU_PRECISION_GRAPH_PASSES_GRAPH_FUSED_OPS_H_
#define NPU_PRECISION_GRAPH_PASSES_GRAPH_FUSED_OPS_H_

#include <functional>
#include <string>
#include <vector>

#include "tensorflow/core/framework/graph.pb.h"

namespace npu_precision {

// The op types a node stands for: {"Conv2D", "BiasAdd", "Relu"} for a _FusedConv2D, the op itself
// for any other.
std::vector<std::string> OpsOf(const tensorflow::NodeDef& node);

// Whether the node stands for more than one op.
bool StandsForSeveral(const tensorflow::NodeDef& node);

struct Expansion {
  std::string fused;               // the fused node's name, which the last part takes
  std::vector<std::string> parts;  // names, in order of computation
};

// Copies `graph`, except large values of constants. Replaces every fused node for which `wanted`
// holds by its parts, if it can be written so. Before: relu = _FusedConv2D(x, w, b). After:
// relu/npu_part_0 = Conv2D(x, w), relu/npu_part_1 = BiasAdd(relu/npu_part_0, b), relu =
// Relu(relu/npu_part_1). Refused: fused ops with no op type of their own (exact Gelu), int8 forms.
void ExpandFusedOps(const tensorflow::GraphDef& graph,
                    const std::function<bool(const tensorflow::NodeDef&)>& wanted,
                    tensorflow::GraphDef* expanded, std::vector<Expansion>* expansions);

// The suffix of a node whose own name was given to a Cast.
constexpr char kRenamedSuffix[] = "/npu_changed";

// The name that users know: the name of the fused node for a part, and the name without the suffix
// for a node that an earlier run renamed.
std::string NameInMixlist(const std::string& name);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_GRAPH_FUSED_OPS_H_
