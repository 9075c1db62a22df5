// Implements DtypeSupport by the kernels that TensorFlow has registered on this machine.
#ifndef NPU_PRECISION_CC_KERNEL_SUPPORT_H_
#define NPU_PRECISION_CC_KERNEL_SUPPORT_H_

#include <string>
#include <unordered_map>

#include "graph_passes/decide/dtype_support.h"

namespace npu_precision {

class KernelSupport : public DtypeSupport {
 public:
  // `has_gpu`: a node without a device will run on the GPU if there is a kernel for it.
  // `runs_here`: the graph runs in this process, and is not converted for another one.
  // `has_own_ops`: no node of it runs in another process, which may not have loaded this library.
  // `emulates`: every dtype is supported, because the run uses another dtype instead.
  // `for_onednn`: the graph is converted for CPUs with oneDNN.
  KernelSupport(bool has_gpu, bool runs_here, bool has_own_ops, bool emulates, bool for_onednn)
      : has_gpu_(has_gpu),
        runs_here_(runs_here),
        has_own_ops_(has_own_ops),
        emulates_(emulates),
        for_onednn_(for_onednn) {}

  bool CanRun(const tensorflow::NodeDef& node, const tensorflow::NodeDef& changed) const override;
  bool DependsOnShapes(const tensorflow::NodeDef& node) const override;
  bool CanRunWith(const tensorflow::NodeDef& changed, const NodeShapes& shapes) const override;
  DeviceKind KindOf(const tensorflow::NodeDef& node) const override;
  // On a CPU, the products decide: only their kernels use such instructions. If they do, the ops
  // that TensorFlow fuses into them should keep the dtype of the products.
  bool HasFastFloat16(const tensorflow::NodeDef& node) const override;
  bool TruncatesBfloat16(const tensorflow::NodeDef& node) const override;
  bool HasOneDnn(const tensorflow::NodeDef& node, tensorflow::DataType dtype) const override;
  bool HasOwnOps(const tensorflow::NodeDef& node) const override;
  bool KeepsCasts(const tensorflow::NodeDef& node) const override;

 private:
  std::string DeviceTypeOf(const tensorflow::NodeDef& node) const;

  const bool has_gpu_, runs_here_, has_own_ops_, emulates_, for_onednn_;
  mutable std::unordered_map<std::string, std::string> type_of_device_;  // by its full name
};

}  // namespace npu_precision

#endif  // NPU_PRECISION_CC_KERNEL_SUPPORT_H_
