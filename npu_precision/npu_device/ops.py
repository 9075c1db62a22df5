"""npu_device.ops: ops of an NPU, computed by TensorFlow here."""

from npu_precision.npu_bridge.npu_unary_ops import gelu

__all__ = ["gelu"]
