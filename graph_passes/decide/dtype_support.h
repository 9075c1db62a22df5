// The abilities of the machine that runs the graph, by node.
#ifndef NPU_PRECISION_GRAPH_PASSES_DECIDE_DTYPE_SUPPORT_H_
#define NPU_PRECISION_GRAPH_PASSES_DECIDE_DTYPE_SUPPORT_H_

#include "graph_passes/lists/op_lists.h"
#include "tensorflow/core/framework/node_def.pb.h"
#include "tensorflow/core/framework/types.pb.h"

namespace npu_precision {

struct NodeShapes;  // see node_shapes.h, whose include takes long to compile

class DtypeSupport {
 public:
  virtual ~DtypeSupport() = default;

  // Whether the device that runs `node` can also run `changed`, which is `node` with other dtypes.
  virtual bool CanRun(const tensorflow::NodeDef& node,
                      const tensorflow::NodeDef& changed) const = 0;

  // Whether the answer depends on the shapes of tensors too; and then whether the kernel of
  // `changed` works with such shapes. It does as far as they are not known.
  virtual bool DependsOnShapes(const tensorflow::NodeDef& node) const = 0;
  virtual bool CanRunWith(const tensorflow::NodeDef& changed, const NodeShapes& shapes) const = 0;

  // The kind of device that `node` runs on. It selects the lists of the host.
  virtual DeviceKind KindOf(const tensorflow::NodeDef& node) const = 0;

  // False if `node` runs on a device that only emulates float16 in its kernels. True if the device
  // is not known.
  virtual bool HasFastFloat16(const tensorflow::NodeDef& node) const = 0;

  // Whether `node` runs in bfloat16 on a device whose kernel truncates its results instead of
  // rounding them: sums of such results are too small. False if the device is not known.
  virtual bool TruncatesBfloat16(const tensorflow::NodeDef& node) const = 0;

  // Whether `node` runs on a CPU where oneDNN's kernels for convolutions and pools replace
  // TensorFlow's in this dtype. False if the device is not known.
  virtual bool HasOneDnn(const tensorflow::NodeDef& node, tensorflow::DataType dtype) const = 0;

  // Whether `node` runs on a CPU of this process, which has the kernels of this library's own ops.
  virtual bool HasOwnOps(const tensorflow::NodeDef& node) const = 0;

  // HasOwnOps, and no kernel writes into the buffer of a variable that something else holds.
  virtual bool KeepsCasts(const tensorflow::NodeDef& node) const = 0;
};

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_DECIDE_DTYPE_SUPPORT_H_
