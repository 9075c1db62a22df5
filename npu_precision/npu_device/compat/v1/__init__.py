"""npu_device.compat.v1: the names that TF1 scripts import from npu_bridge."""

from npu_precision.npu_bridge import npu_init

__all__ = ["npu_init"]
