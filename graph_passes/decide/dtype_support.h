// The abilities of the machine that runs the graph, by node.
#ifndef NPU_PRECISION_GRAPH_PASSES_DECIDE_DTYPE_SUPPORT_H_
#define NPU_PRECISION_GRAPH_PASSES_DECIDE_DTYPE_SUPPORT_H_

#include "graph_passes/graph/tensor_shapes.h"
#include "graph_passes/lists/op_lists.h"
#include "tensorflow/core/framework/node_def.pb.h"
#include "tensorflow/core/framework/types.pb.h"

namespace npu_precision {

class DtypeSupport {
 public:
  virtual ~DtypeSupport() = default;

  // Whether the device that runs `node` can also run `changed`, which is `node` with other dtypes.
  virtual bool CanRun(const tensorflow::NodeDef& node,
                      const tensorflow::NodeDef& changed) const = 0;

  // Whether the kernel of `changed`, a depthwise convolution, may run forever with a filter of this
  // shape, [height, width, ...]. False if the shape is not known, and for other ops.
  virtual bool MayRunForever(const tensorflow::NodeDef& node, const tensorflow::NodeDef& changed,
                             const tensorflow::PartialTensorShape& filter) const = 0;

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
};

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_DECIDE_DTYPE_SUPPORT_H_
