// Implements DtypeSupport for functions that XLA compiles: it generates code instead of choosing
// kernels.
#ifndef NPU_PRECISION_CC_XLA_SUPPORT_H_
#define NPU_PRECISION_CC_XLA_SUPPORT_H_

#include "graph_passes/decide/dtype_support.h"

namespace npu_precision {

class XlaSupport : public DtypeSupport {
 public:
  // `has_gpu`: a node without a device runs on the GPU.
  explicit XlaSupport(bool has_gpu) : has_gpu_(has_gpu) {}

  // Asks for the device's own kernels, which are known at any time, and for XLA's, which TensorFlow
  // registers when it first compiles.
  bool CanRun(const tensorflow::NodeDef& node, const tensorflow::NodeDef& changed) const override;
  DeviceKind KindOf(const tensorflow::NodeDef& node) const override;

  // Faults and speed are those of kernels that do not run here. On a CPU without instructions for a
  // low type, XLA computes in float32 and rounds.
  bool DependsOnShapes(const tensorflow::NodeDef&) const override { return false; }
  bool CanRunWith(const tensorflow::NodeDef&, const NodeShapes&) const override { return true; }
  bool HasFastFloat16(const tensorflow::NodeDef&) const override { return true; }
  bool TruncatesBfloat16(const tensorflow::NodeDef&) const override { return false; }
  bool HasOneDnn(const tensorflow::NodeDef&, tensorflow::DataType) const override { return false; }
  bool HasOwnOps(const tensorflow::NodeDef&) const override { return false; }
  bool KeepsCasts(const tensorflow::NodeDef&) const override { return false; }

 private:
  const bool has_gpu_;
};

}  // namespace npu_precision

#endif  // NPU_PRECISION_CC_XLA_SUPPORT_H_
