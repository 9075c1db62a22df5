// Functions that XLA compiles. Grappler leaves them out, so no optimizer receives their bodies:
// they are rewritten where they are called.
#ifndef NPU_PRECISION_CC_COMPILED_FUNCTIONS_H_
#define NPU_PRECISION_CC_COMPILED_FUNCTIONS_H_

#include <functional>

#include "cc/bodies_in_place.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/framework/node_def.pb.h"
#include "tensorflow/core/grappler/clusters/cluster.h"
#include "tensorflow/core/grappler/grappler_item.h"
#include "tensorflow/core/lib/core/status.h"

namespace npu_precision {

// Rewrites the graph of a function's body. If there is nothing to change, `changed` is false. A
// trial shows what would be kept: it is not counted, and has no ledger.
using RewriteBody =
    std::function<tensorflow::Status(const tensorflow::grappler::GrapplerItem& body, bool is_trial,
                                     tensorflow::GraphDef* out, bool* changed)>;

// Whether the item is the body of a function that XLA compiles.
bool IsOfCompiledFunction(const tensorflow::grappler::GrapplerItem& item);

// Whether XLA compiles the functions that the node refers to.
bool CallsCompiled(const tensorflow::NodeDef& node);

// Rewrites each function that a node of the graph calls and XLA compiles, and the functions that
// are called by it. A rewritten function is added to the graph's library under a new name, and the
// call refers to it. The name has a hash of the function: XLA keeps what it compiled by name, for
// the whole process. The functions themselves stay as they are, for calls in their own precision.
tensorflow::Status RewriteCompiledFunctions(tensorflow::grappler::Cluster* cluster,
                                            const RewriteBody& rewrite, const NamesOfKept& kept,
                                            tensorflow::GraphDef* graph);

}  // namespace npu_precision

#endif  // NPU_PRECISION_CC_COMPILED_FUNCTIONS_H_
