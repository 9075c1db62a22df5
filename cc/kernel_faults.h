// The kernels of TensorFlow's CPUs that are registered, and yet yield wrong values, end the process
// or never return. Each was found by running it in a process of its own against float32.
#ifndef NPU_PRECISION_CC_KERNEL_FAULTS_H_
#define NPU_PRECISION_CC_KERNEL_FAULTS_H_

#include "graph_passes/decide/node_shapes.h"
#include "tensorflow/core/framework/node_def.pb.h"
#include "tensorflow/core/framework/types.pb.h"

namespace npu_precision {

bool ComputesIn(const tensorflow::NodeDef& node, tensorflow::DataType dtype);
// Whether TensorFlow's remapper made the node.
bool IsFusedByTensorFlow(const tensorflow::NodeDef& node);

// Whether the CPU's kernel of `node` fails in the dtypes that `node` has, whatever the shapes.
bool FailsOnCpu(const tensorflow::NodeDef& node);

// Whether it may fail with tensors of some shapes, so that FailsOnCpu(node, shapes) says more.
bool MayFailOnCpu(const tensorflow::NodeDef& node);
bool FailsOnCpu(const tensorflow::NodeDef& node, const NodeShapes& shapes);

}  // namespace npu_precision

#endif  // NPU_PRECISION_CC_KERNEL_FAULTS_H_
