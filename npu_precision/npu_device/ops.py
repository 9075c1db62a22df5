"""npu_device.ops: ops that an NPU has, and TensorFlow computes here."""

from npu_precision.npu_bridge.npu_unary_ops import gelu

__all__ = ["gelu"]
