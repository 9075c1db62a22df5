// What the machine the graph runs on can do, asked node by node.
#ifndef NPU_PRECISION_GRAPH_PASSES_DECIDE_DTYPE_SUPPORT_H_
#define NPU_PRECISION_GRAPH_PASSES_DECIDE_DTYPE_SUPPORT_H_

#include "graph_passes/lists/op_lists.h"
#include "tensorflow/core/framework/node_def.pb.h"

namespace npu_precision {

class DtypeSupport {
 public:
  virtual ~DtypeSupport() = default;

  // Whether the device that `node` runs on as it is can run it as `changed`, which has other
  // dtypes.
  virtual bool CanRun(const tensorflow::NodeDef& node,
                      const tensorflow::NodeDef& changed) const = 0;

  // The kind of device `node` runs on, which selects the host's lists.
  virtual DeviceKind KindOf(const tensorflow::NodeDef& node) const = 0;
};

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_DECIDE_DTYPE_SUPPORT_H_
